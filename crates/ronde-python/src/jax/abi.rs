//! XLA's interface for functions from outside, as its documentation lays it out: nothing is compiled against JAX.
//!
//! All that is unsafe about JAX is here. The rest of the folder sees a [`Call`] with its tensors, and answers with a
//! result or a [`Failure`], at once or, where XLA knows futures, later. Sizes that XLA states are checked before
//! anything behind them is read; what is too old or too new is refused with a sentence.
#![expect(unsafe_code, reason = "XLA speaks C")]

use std::{
    ffi::{CString, c_char, c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
};

use pyo3::{prelude::*, types::PyCapsule};
use ronde_collective::{Buffer, DataType};

type Pointer = *mut c_void;

/// What JAX wants to see on a pointer to such a function.
const CAPSULE_NAME: &std::ffi::CStr = c"xla._CUSTOM_CALL_TARGET";
/// The newest interface that these declarations were compared with, 0.4; a newer XLA takes older functions.
const MINOR_VERSION_MAX: c_int = 4;

/// Something that XLA may send along.
#[repr(C)]
struct Extension {
    struct_size: usize,
    kind: c_int,
    next: *mut Self,
}

const METADATA_EXTENSION: c_int = 1;

#[repr(C)]
struct Version {
    struct_size: usize,
    extension: *mut Extension,
    major: c_int,
    minor: c_int,
}

#[repr(C)]
struct Metadata {
    struct_size: usize,
    version: Version,
}

#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

/// Arguments, results or, with names, attributes.
#[repr(C)]
struct List {
    struct_size: usize,
    extension: *mut Extension,
    len: i64,
    kinds: *const c_int,
    items: *const Pointer,
}

#[repr(C)]
struct Attributes {
    struct_size: usize,
    extension: *mut Extension,
    len: i64,
    kinds: *const c_int,
    names: *const *const Text,
    items: *const Pointer,
}

/// One execution of a function.
#[repr(C)]
pub(super) struct Frame {
    struct_size: usize,
    extension: *mut Extension,
    api: *const Api,
    context: Pointer,
    stage: c_int,
    arguments: List,
    results: List,
    attributes: Attributes,
    /// Read by XLA if it knows futures, which its size does not tell: [`Functions`] does.
    future: Pointer,
}

/// As XLA counts it: without the future.
const FRAME_SIZE: usize = std::mem::offset_of!(Frame, future);

#[repr(C)]
struct Tensor {
    struct_size: usize,
    extension: *mut Extension,
    dtype: c_int,
    data: *mut u8,
    rank: i64,
    dimensions: *const i64,
}

#[repr(C)]
struct Text {
    data: *const u8,
    len: usize,
}

const BUFFER: c_int = 1;
const STRING: c_int = 4;

/// The head of XLA's table of functions; the functions follow it.
#[repr(C)]
struct Api {
    struct_size: usize,
    extension: *mut Extension,
    version: Version,
    internal: Pointer,
}

#[repr(C)]
struct ErrorCreate {
    struct_size: usize,
    extension: *mut Extension,
    message: *const c_char,
    code: c_int,
}

#[repr(C)]
struct FutureCreate {
    struct_size: usize,
    extension: *mut Extension,
    future: Pointer,
}

#[repr(C)]
struct FutureSet {
    struct_size: usize,
    extension: *mut Extension,
    future: Pointer,
    error: Pointer,
}

/// A function of XLA's table, whatever it takes; and one that takes a struct and gives an error or null.
type AnyFunction = unsafe extern "C" fn();
type Function<T> = unsafe extern "C" fn(*mut T) -> Pointer;

/// XLA's functions that are used, for as long as the process lives.
#[derive(Clone, Copy)]
struct Functions {
    error_create: Function<ErrorCreate>,
    futures: Option<Futures>,
    version: Option<(c_int, c_int)>,
}

#[derive(Clone, Copy)]
struct Futures {
    create: Function<FutureCreate>,
    set_available: Function<FutureSet>,
    set_error: Function<FutureSet>,
}

impl Functions {
    /// Finds them in XLA's table.
    ///
    /// # Safety
    /// The table must be XLA's, or null.
    unsafe fn new(api: *const Api) -> Option<Self> {
        if api.is_null() {
            return None;
        }
        // SAFETY: the table begins with its size; what follows is read only so far as that reaches.
        unsafe {
            let size = (*api).struct_size;
            // The first XLA of JAX 0.4.30 has no version here, but a pointer.
            let has_version = (&raw const (*api).version.struct_size).read() == size_of::<Version>();
            let head = if has_version { size_of::<Api>() } else { size_of::<Api>() - size_of::<Version>() };
            let count = size.checked_sub(head)? / size_of::<Pointer>();
            let table = api.cast::<Option<AnyFunction>>().add(head / size_of::<Pointer>());
            let function = |index: usize| if index < count { table.add(index).read() } else { None };
            // Of the functions of a table, the first makes errors; one was put before the futures when they were new.
            let first_future = if count > 15 { 13 } else { 12 };
            Some(Self {
                error_create: std::mem::transmute::<AnyFunction, Function<ErrorCreate>>(function(0)?),
                futures: Futures::new([0, 1, 2].map(|index| function(first_future + index))),
                version: has_version.then(|| ((*api).version.major, (*api).version.minor)),
            })
        }
    }

    /// Whether a function is to act. A stage was put before this one shortly before tables got versions.
    const fn is_execution(&self, stage: c_int) -> bool {
        stage == 3 || (stage == 2 && self.version.is_none())
    }

    fn error(&self, failure: &Failure) -> Pointer {
        let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
        let mut arguments = ErrorCreate {
            struct_size: std::mem::offset_of!(ErrorCreate, code) + size_of::<c_int>(),
            extension: ptr::null_mut(),
            message: text.as_ptr(),
            code: failure.code as c_int,
        };
        // SAFETY: XLA copies the text; the error is XLA's again when it is returned.
        unsafe { (self.error_create)(&raw mut arguments) }
    }
}

impl Futures {
    /// # Safety
    /// The functions must be those for futures, in XLA's order.
    unsafe fn new(functions: [Option<AnyFunction>; 3]) -> Option<Self> {
        let [Some(create), Some(set_available), Some(set_error)] = functions else { return None };
        // SAFETY: they are these functions, whose declarations are XLA's.
        unsafe {
            Some(Self {
                create: std::mem::transmute::<AnyFunction, Function<FutureCreate>>(create),
                set_available: std::mem::transmute::<AnyFunction, Function<FutureSet>>(set_available),
                set_error: std::mem::transmute::<AnyFunction, Function<FutureSet>>(set_error),
            })
        }
    }
}

/// XLA's numbers for kinds of failures.
#[derive(Debug, Clone, Copy)]
pub(super) enum Code {
    InvalidArgument = 3,
    FailedPrecondition = 9,
    Aborted = 10,
    Unimplemented = 12,
    Internal = 13,
}

/// Why a call failed.
#[derive(Debug)]
pub(super) struct Failure {
    code: Code,
    text: String,
}

impl Failure {
    pub(super) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// A tensor of a call.
#[derive(Debug)]
pub(super) struct TensorRef {
    /// None if the engine has no such type.
    pub(super) dtype: Option<DataType>,
    pub(super) shape: Vec<usize>,
    address: *mut u8,
}

// SAFETY: it is memory of XLA's, which may be used from any thread until the call is finished.
unsafe impl Send for TensorRef {}

impl TensorRef {
    pub(super) fn is_same_memory(&self, other: &Self) -> bool {
        self.address == other.address
    }

    /// The memory, for as long as the call is not finished.
    pub(super) fn buffer(&self) -> Buffer {
        let elements = self.shape.iter().product::<usize>();
        let len = elements * self.dtype.map_or(0, DataType::size);
        if len == 0 {
            return Buffer::from(Vec::new());
        }
        // SAFETY: XLA gives contiguous memory of this type and shape until the call is finished; arguments are only
        // read unless XLA gave the same memory for a result.
        unsafe { Buffer::from_raw(self.address, len) }
    }
}

/// What a call is about.
#[derive(Debug)]
pub(super) struct Call {
    /// What the lowering in `ronde.jax` has written.
    pub(super) request: String,
    pub(super) arguments: Vec<TensorRef>,
    pub(super) results: Vec<TensorRef>,
}

/// Where the outcome of a call goes if it is not known at once. One that is dropped fails.
pub(super) struct Later {
    functions: Functions,
    futures: Futures,
    future: Pointer,
    is_finished: bool,
}

// SAFETY: XLA's futures are made to be set from any thread.
unsafe impl Send for Later {}

impl Later {
    fn new(functions: Functions) -> Option<Self> {
        let futures = functions.futures?;
        let mut arguments = FutureCreate {
            struct_size: std::mem::offset_of!(FutureCreate, future),
            extension: ptr::null_mut(),
            future: ptr::null_mut(),
        };
        // SAFETY: the arguments live for the call. An error can only be about their size: there is no future then.
        let error = unsafe { (futures.create)(&raw mut arguments) };
        let is_made = error.is_null() && !arguments.future.is_null();
        is_made.then_some(Self { functions, futures, future: arguments.future, is_finished: false })
    }

    pub(super) fn finish(mut self, result: Result<(), Failure>) {
        self.end(result);
    }

    fn end(&mut self, result: Result<(), Failure>) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        let error = result.err().map_or(ptr::null_mut(), |failure| self.functions.error(&failure));
        let mut arguments = FutureSet {
            struct_size: std::mem::offset_of!(FutureSet, error),
            extension: ptr::null_mut(),
            future: self.future,
            error,
        };
        // SAFETY: the future is ours until it is set, which happens once; the error is XLA's from now on.
        unsafe {
            if error.is_null() {
                (self.futures.set_available)(&raw mut arguments);
            } else {
                arguments.struct_size = size_of::<FutureSet>();
                (self.futures.set_error)(&raw mut arguments);
            }
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.end(Err(Failure::new(
            Code::Internal,
            "the operation was forgotten: this is a defect of Ronde, please report it",
        )));
    }
}

/// What is done with calls.
pub(super) trait Act {
    /// Does a call; with `later` the outcome may follow when it is known.
    fn act(call: Call, later: Option<Later>) -> Result<(), Failure>;
}

/// A function for XLA in the form in which JAX takes it.
pub(super) fn capsule<A: Act>(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    let function: Function<Frame> = handle::<A>;
    let address = NonNull::new(function as Pointer).expect("a function has an address");
    // SAFETY: the function is there for as long as the process.
    unsafe { PyCapsule::new_with_pointer(py, address, CAPSULE_NAME) }
}

/// # Safety
/// Only XLA calls it, with a frame that lives for the call.
unsafe extern "C" fn handle<A: Act>(frame: *mut Frame) -> Pointer {
    // SAFETY: every frame begins with its size, extensions and the table of functions.
    let (size, functions) = unsafe {
        let functions = Functions::new((*frame).api);
        if answer_metadata((*frame).extension, functions.as_ref().and_then(|functions| functions.version)) {
            return ptr::null_mut();
        }
        ((*frame).struct_size, functions)
    };
    // Without a way to make errors there is none to tell of it.
    let Some(functions) = functions else { return ptr::null_mut() };
    // Nothing may unwind into XLA.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        if size < FRAME_SIZE {
            return Err(Failure::new(Code::Unimplemented, format!("XLA's frame has {size} bytes: it is too old")));
        }
        // SAFETY: the frame is as large as was declared.
        unsafe { act_on_frame::<A>(&mut *frame, functions) }
    }));
    let failure = match outcome {
        Ok(Ok(())) => return ptr::null_mut(),
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(Code::Internal, "the operation panicked: this is a defect of Ronde, please report it"),
    };
    functions.error(&failure)
}

/// # Safety
/// The frame must be XLA's.
unsafe fn act_on_frame<A: Act>(frame: &mut Frame, functions: Functions) -> Result<(), Failure> {
    // SAFETY: the frame is XLA's for this call, and so is all that it points to.
    unsafe {
        if !functions.is_execution(frame.stage) {
            return Ok(());
        }
        let call = Call {
            request: text_attribute(&frame.attributes, "request")?,
            arguments: tensors(&frame.arguments)?,
            results: tensors(&frame.results)?,
        };
        let later = Later::new(functions);
        frame.future = later.as_ref().map_or(ptr::null_mut(), |later| later.future);
        A::act(call, later)
    }
}

/// Says for which version of the interface this was written, if XLA asks for that and nothing else.
///
/// # Safety
/// The extensions must be XLA's.
unsafe fn answer_metadata(mut extension: *mut Extension, version: Option<(c_int, c_int)>) -> bool {
    // SAFETY: a list that ends with a null; an extension of this kind is one for metadata.
    unsafe {
        while !extension.is_null() {
            if (*extension).kind == METADATA_EXTENSION {
                let metadata = (*extension.cast::<MetadataExtension>()).metadata;
                // XLAs of 0.1 ask without their functions.
                let (major, minor) = version.unwrap_or((0, 1));
                if (*metadata).struct_size >= size_of::<Metadata>() {
                    (*metadata).version.major = major.min(0);
                    // Older XLAs want exactly their own, newer ones none above it.
                    (*metadata).version.minor = minor.min(MINOR_VERSION_MAX);
                }
                return true;
            }
            extension = (*extension).next;
        }
    }
    false
}

/// # Safety
/// The attributes must be XLA's.
unsafe fn text_attribute(attributes: &Attributes, wanted: &str) -> Result<String, Failure> {
    let text = |text: &Text| {
        // SAFETY: XLA's texts have the length that they state.
        let bytes = unsafe { std::slice::from_raw_parts(text.data, text.len) };
        String::from_utf8_lossy(bytes).into_owned()
    };
    for index in 0..usize::try_from(attributes.len).unwrap_or(0) {
        // SAFETY: the lists are as long as is said, and an attribute of this kind is a text.
        unsafe {
            if *attributes.kinds.add(index) == STRING && text(&**attributes.names.add(index)) == wanted {
                return Ok(text(&*(*attributes.items.add(index)).cast::<Text>()));
            }
        }
    }
    Err(Failure::new(Code::Internal, format!("the call has no attribute `{wanted}`")))
}

/// # Safety
/// The list must be XLA's.
unsafe fn tensors(list: &List) -> Result<Vec<TensorRef>, Failure> {
    let len = usize::try_from(list.len).unwrap_or(0);
    let mut found = Vec::with_capacity(len);
    for index in 0..len {
        // SAFETY: the lists are as long as is said, and an item of this kind is a tensor of the size that it states.
        unsafe {
            let tensor = (*list.items.add(index)).cast::<Tensor>();
            if *list.kinds.add(index) != BUFFER || (*tensor).struct_size < size_of::<Tensor>() {
                return Err(Failure::new(Code::Unimplemented, "XLA gives tensors in a form that is unknown"));
            }
            let rank = usize::try_from((*tensor).rank).unwrap_or(0);
            let dimension = |at: usize| usize::try_from(*(*tensor).dimensions.add(at)).unwrap_or(0);
            let shape = (0..rank).map(dimension).collect();
            found.push(TensorRef { dtype: dtype((*tensor).dtype), shape, address: (*tensor).data });
        }
    }
    Ok(found)
}

/// The type that has this number at XLA.
const fn dtype(number: c_int) -> Option<DataType> {
    Some(match number {
        1 => DataType::Bool,
        2 => DataType::I8,
        3 => DataType::I16,
        4 => DataType::I32,
        5 => DataType::I64,
        6 => DataType::U8,
        7 => DataType::U16,
        10 => DataType::F16,
        11 => DataType::F32,
        12 => DataType::F64,
        16 => DataType::BF16,
        _ => return None,
    })
}
