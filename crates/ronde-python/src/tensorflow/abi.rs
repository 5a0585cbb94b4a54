//! TensorFlow's C interface, by addresses that are found at run time: nothing is compiled or linked against it.
//!
//! All that is unsafe about TensorFlow is here. The rest of the folder sees a [`Call`] of an operation, its tensors and
//! [`Failure`]s. A call is finished exactly once, whatever happens to it: one that is dropped fails.
#![expect(unsafe_code, reason = "TensorFlow is a C library")]

use std::{
    alloc::{Layout, alloc, dealloc},
    ffi::{CString, c_char, c_int, c_void},
    ptr,
    sync::OnceLock,
};

use ronde_collective::{Buffer, DataType};

use super::callback::Callback;

type Pointer = *mut c_void;

/// A piece of text of TensorFlow's.
#[repr(C)]
struct StringView {
    data: *const u8,
    len: usize,
}

macro_rules! interface {
    ($(#[$attribute:meta])* $kind:ident, $names:ident, $($name:ident: ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, each under the name that TensorFlow gives it.
        #[expect(non_snake_case, reason = "the names are TensorFlow's")]
        $(#[$attribute])*
        struct $kind { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        pub(super) const $names: &[&str] = &[$(stringify!($name),)*];

        impl $kind {
            fn new(find: &dyn Fn(&str) -> Option<usize>) -> Result<Self, &'static str> {
                // SAFETY: the address is that of the function of this name, whose declaration is TensorFlow's.
                Ok(Self { $($name: unsafe {
                    std::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                        find(stringify!($name)).filter(|address| *address != 0).ok_or(stringify!($name))?,
                    )
                },)* })
            }
        }
    };
}

interface! {
    #[expect(clippy::struct_field_names, reason = "the names are TensorFlow's")]
    Interface, NAMES,
    TF_NewStatus: () -> Pointer;
    TF_DeleteStatus: (Pointer);
    TF_SetStatus: (Pointer, c_int, *const c_char);
    TF_GetCode: (Pointer) -> c_int;
    TF_Message: (Pointer) -> *const c_char;
    TF_NewOpDefinitionBuilder: (*const c_char) -> Pointer;
    TF_OpDefinitionBuilderAddAttr: (Pointer, *const c_char);
    TF_OpDefinitionBuilderAddInput: (Pointer, *const c_char);
    TF_OpDefinitionBuilderAddOutput: (Pointer, *const c_char);
    TF_OpDefinitionBuilderSetIsStateful: (Pointer, bool);
    TF_OpDefinitionBuilderSetShapeInferenceFunction: (Pointer, unsafe extern "C" fn(Pointer, Pointer));
    TF_RegisterOpDefinition: (Pointer, Pointer);
    TF_NewShapeHandle: () -> Pointer;
    TF_DeleteShapeHandle: (Pointer);
    TF_ShapeInferenceContextNumInputs: (Pointer) -> i64;
    TF_ShapeInferenceContextGetInput: (Pointer, c_int, Pointer, Pointer);
    TF_ShapeInferenceContextSetOutput: (Pointer, c_int, Pointer, Pointer);
    TF_ShapeInferenceContextRankKnown: (Pointer, Pointer) -> c_int;
    TF_ShapeInferenceContextSubshape: (Pointer, Pointer, i64, i64, Pointer, Pointer);
    TF_ShapeInferenceContextConcatenateShapes: (Pointer, Pointer, Pointer, Pointer, Pointer);
    TF_ShapeInferenceContextVectorFromSize: (Pointer, usize) -> Pointer;
    TF_NewKernelBuilder: (
        *const c_char,
        *const c_char,
        Option<unsafe extern "C" fn(Pointer) -> Pointer>,
        Option<unsafe extern "C" fn(Pointer, Pointer)>,
        Option<unsafe extern "C" fn(Pointer)>
    ) -> Pointer;
    TF_RegisterKernelBuilder: (*const c_char, Pointer, Pointer);
    TF_OpKernelConstruction_Failure: (Pointer, Pointer);
    TF_OpKernelConstruction_GetName: (Pointer) -> StringView;
    TF_OpKernelConstruction_GetAttrSize: (Pointer, *const c_char, *mut i32, *mut i32, Pointer);
    TF_OpKernelConstruction_GetAttrInt64: (Pointer, *const c_char, *mut i64, Pointer);
    TF_OpKernelConstruction_GetAttrFloat: (Pointer, *const c_char, *mut f32, Pointer);
    TF_OpKernelConstruction_GetAttrString: (Pointer, *const c_char, *mut c_char, usize, Pointer);
    TF_NumInputs: (Pointer) -> c_int;
    TF_GetInput: (Pointer, c_int, *mut Pointer, Pointer);
    TF_AllocateOutput: (Pointer, c_int, c_int, *const i64, c_int, usize, Pointer) -> Pointer;
    TF_ForwardInputOrAllocateOutput:
        (Pointer, *const c_int, c_int, c_int, *const i64, c_int, *mut c_int, Pointer) -> Pointer;
    TF_SetOutput: (Pointer, c_int, Pointer, Pointer);
    TF_OpKernelContext_Failure: (Pointer, Pointer);
    TF_NewTensor: (
        c_int,
        *const i64,
        c_int,
        Pointer,
        usize,
        unsafe extern "C" fn(Pointer, usize, Pointer),
        Pointer
    ) -> Pointer;
    TF_TensorType: (Pointer) -> c_int;
    TF_NumDims: (Pointer) -> c_int;
    TF_Dim: (Pointer, c_int) -> i64;
    TF_TensorByteSize: (Pointer) -> usize;
    TF_TensorData: (Pointer) -> *mut u8;
    TF_DeleteTensor: (Pointer);
}

interface! {
    Asynchronous, ASYNCHRONOUS_NAMES,
    TF_NewAsyncKernelBuilder: (
        *const c_char,
        *const c_char,
        Option<unsafe extern "C" fn(Pointer) -> Pointer>,
        Option<unsafe extern "C" fn(Pointer, Pointer, Pointer)>,
        Option<unsafe extern "C" fn(Pointer)>
    ) -> Pointer;
    TF_RunAsyncOpKernelDoneCallback: (Pointer);
}

static INTERFACE: OnceLock<Interface> = OnceLock::new();
/// What TensorFlow 2.12 lacks; without it every operation waits in a thread of TensorFlow's.
static ASYNCHRONOUS: OnceLock<Option<Asynchronous>> = OnceLock::new();

/// Finds everything, once; says what is missing.
pub(super) fn load(find: &dyn Fn(&str) -> Option<usize>) -> Result<(), &'static str> {
    let interface = Interface::new(find)?;
    // Another thread may have been quicker, with the same addresses.
    let _ = INTERFACE.set(interface);
    let _ = ASYNCHRONOUS.set(Asynchronous::new(find).ok());
    Ok(())
}

/// Whether operations can be finished after their kernels have returned.
pub(super) fn is_asynchronous() -> bool {
    asynchronous().is_some()
}

fn asynchronous() -> Option<&'static Asynchronous> {
    ASYNCHRONOUS.get().and_then(Option::as_ref)
}

fn interface() -> &'static Interface {
    INTERFACE.get().expect("TensorFlow calls only what was registered, after everything was found")
}

/// Numbers of TensorFlow's for kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Unknown = 2,
    InvalidArgument = 3,
    FailedPrecondition = 9,
    Internal = 13,
}

/// Why an operation failed.
#[derive(Debug)]
pub(super) struct Failure {
    code: c_int,
    text: String,
}

impl Failure {
    pub(super) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code: code as c_int, text: text.into() }
    }
}

struct Status(Pointer);

impl Status {
    fn new() -> Self {
        // SAFETY: it takes nothing.
        Self(unsafe { (interface().TF_NewStatus)() })
    }

    fn of_failure(failure: &Failure) -> Self {
        let status = Self::new();
        let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the status lives, and the text is copied.
        unsafe { (interface().TF_SetStatus)(status.0, failure.code, text.as_ptr()) };
        status
    }

    fn check(&self) -> Result<(), Failure> {
        // SAFETY: the status lives, and its text as long as it.
        let (code, text) = unsafe { ((interface().TF_GetCode)(self.0), (interface().TF_Message)(self.0)) };
        if code == 0 {
            return Ok(());
        }
        // SAFETY: as above; the text ends with a zero.
        let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned();
        Err(Failure { code, text })
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        // SAFETY: made by `new`, deleted once.
        unsafe { (interface().TF_DeleteStatus)(self.0) };
    }
}

/// How the shapes of results follow from those of the inputs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shapes {
    Same,
    /// All dimensions but the first, which others decide; a second result, if there is one, is a vector.
    OtherRows,
    Unknown,
}

/// An operation as TensorFlow is told of it.
#[derive(Debug)]
pub(super) struct Definition<'a> {
    pub(super) name: &'a str,
    pub(super) inputs: &'a [&'a str],
    pub(super) outputs: &'a [&'a str],
    pub(super) attributes: &'a [&'a str],
    pub(super) shapes: Shapes,
}

/// Registers an operation, and the kernel that `K` makes for it.
pub(super) fn register<K: Kernel>(definition: &Definition<'_>) -> Result<(), Failure> {
    let text = |text: &str| CString::new(text).map_err(|_| Failure::new(Code::Internal, "a name with a zero"));
    let (api, status, name, device) = (interface(), Status::new(), text(definition.name)?, text("CPU")?);
    // SAFETY: TensorFlow copies all texts, and owns the builders once they are registered.
    unsafe {
        let builder = (api.TF_NewOpDefinitionBuilder)(name.as_ptr());
        for each in definition.attributes {
            (api.TF_OpDefinitionBuilderAddAttr)(builder, text(each)?.as_ptr());
        }
        for each in definition.inputs {
            (api.TF_OpDefinitionBuilderAddInput)(builder, text(each)?.as_ptr());
        }
        for each in definition.outputs {
            (api.TF_OpDefinitionBuilderAddOutput)(builder, text(each)?.as_ptr());
        }
        // Otherwise graphs are optimised by dropping it, or by doing two of a kind once.
        (api.TF_OpDefinitionBuilderSetIsStateful)(builder, true);
        match definition.shapes {
            Shapes::Same => (api.TF_OpDefinitionBuilderSetShapeInferenceFunction)(builder, same_shapes),
            Shapes::OtherRows => (api.TF_OpDefinitionBuilderSetShapeInferenceFunction)(builder, other_rows),
            Shapes::Unknown => {}
        }
        (api.TF_RegisterOpDefinition)(builder, status.0);
        status.check()?;
        let (create, delete): (
            Option<unsafe extern "C" fn(Pointer) -> Pointer>,
            Option<unsafe extern "C" fn(Pointer)>,
        ) = (Some(create::<K>), Some(delete::<K>));
        let kernel = match asynchronous() {
            Some(later) => {
                let compute = Some(compute_later::<K> as unsafe extern "C" fn(Pointer, Pointer, Pointer));
                (later.TF_NewAsyncKernelBuilder)(name.as_ptr(), device.as_ptr(), create, compute, delete)
            }
            None => {
                let compute = Some(compute_now::<K> as unsafe extern "C" fn(Pointer, Pointer));
                (api.TF_NewKernelBuilder)(name.as_ptr(), device.as_ptr(), create, compute, delete)
            }
        };
        (api.TF_RegisterKernelBuilder)(name.as_ptr(), kernel, status.0);
    }
    status.check()
}

/// The handle of a shape, for as long as a function of shapes runs.
struct ShapeHandle(Pointer);

impl ShapeHandle {
    fn new() -> Self {
        // SAFETY: it takes nothing.
        Self(unsafe { (interface().TF_NewShapeHandle)() })
    }
}

impl Drop for ShapeHandle {
    fn drop(&mut self) {
        // SAFETY: made by TensorFlow for us, deleted once.
        unsafe { (interface().TF_DeleteShapeHandle)(self.0) };
    }
}

unsafe extern "C" fn same_shapes(context: Pointer, status: Pointer) {
    let (api, shape) = (interface(), ShapeHandle::new());
    // SAFETY: context and status are TensorFlow's for this call, the numbers are those of inputs that exist.
    unsafe {
        let inputs = c_int::try_from((api.TF_ShapeInferenceContextNumInputs)(context)).unwrap_or(0);
        for index in 0..inputs {
            (api.TF_ShapeInferenceContextGetInput)(context, index, shape.0, status);
            (api.TF_ShapeInferenceContextSetOutput)(context, index, shape.0, status);
        }
    }
}

unsafe extern "C" fn other_rows(context: Pointer, status: Pointer) {
    let (api, shape, rest, whole) = (interface(), ShapeHandle::new(), ShapeHandle::new(), ShapeHandle::new());
    // SAFETY: as in `same_shapes`; a size of all ones is TensorFlow's unknown dimension.
    unsafe {
        let rows = ShapeHandle((api.TF_ShapeInferenceContextVectorFromSize)(context, usize::MAX));
        let inputs = c_int::try_from((api.TF_ShapeInferenceContextNumInputs)(context)).unwrap_or(0);
        for index in 0..inputs {
            (api.TF_ShapeInferenceContextGetInput)(context, index, shape.0, status);
            if (api.TF_ShapeInferenceContextRankKnown)(context, shape.0) == 0 {
                continue;
            }
            (api.TF_ShapeInferenceContextSubshape)(context, shape.0, 1, i64::MAX, rest.0, status);
            if (api.TF_GetCode)(status) == 0 {
                (api.TF_ShapeInferenceContextConcatenateShapes)(context, rows.0, rest.0, whole.0, status);
                (api.TF_ShapeInferenceContextSetOutput)(context, index, whole.0, status);
            }
        }
    }
}

/// What does an operation.
pub(super) trait Kernel: Sized + Send + Sync + 'static {
    fn new(construction: &Construction) -> Result<Self, Failure>;
    /// Does it, now or later: whoever gets the call finishes it.
    fn compute(&self, call: Call);
}

/// What is known when a kernel is made.
pub(super) struct Construction(Pointer);

impl Construction {
    /// The name of the node in its graph.
    pub(super) fn node(&self) -> String {
        // SAFETY: the text lives as long as the construction.
        unsafe {
            let view = (interface().TF_OpKernelConstruction_GetName)(self.0);
            String::from_utf8_lossy(std::slice::from_raw_parts(view.data, view.len)).into_owned()
        }
    }

    pub(super) fn integer(&self, name: &str) -> Result<i64, Failure> {
        let mut value = 0;
        // SAFETY: both pointers are good for this call.
        Self::attribute(name, |name, status| unsafe {
            (interface().TF_OpKernelConstruction_GetAttrInt64)(self.0, name, &raw mut value, status);
        })?;
        Ok(value)
    }

    pub(super) fn number(&self, name: &str) -> Result<f64, Failure> {
        let mut value = 0.0;
        // SAFETY: both pointers are good for this call.
        Self::attribute(name, |name, status| unsafe {
            (interface().TF_OpKernelConstruction_GetAttrFloat)(self.0, name, &raw mut value, status);
        })?;
        Ok(f64::from(value))
    }

    pub(super) fn text(&self, name: &str) -> Result<String, Failure> {
        let (mut items, mut len) = (0, 0);
        // SAFETY: the pointers are good for this call.
        Self::attribute(name, |name, status| unsafe {
            (interface().TF_OpKernelConstruction_GetAttrSize)(self.0, name, &raw mut items, &raw mut len, status);
        })?;
        let mut text = vec![0_u8; usize::try_from(len).unwrap_or(0)];
        // SAFETY: the memory is as large as is said.
        Self::attribute(name, |name, status| unsafe {
            let address = text.as_mut_ptr().cast();
            (interface().TF_OpKernelConstruction_GetAttrString)(self.0, name, address, text.len(), status);
        })?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn attribute(name: &str, get: impl FnOnce(*const c_char, Pointer)) -> Result<(), Failure> {
        let name = CString::new(name).unwrap_or_default();
        let status = Status::new();
        get(name.as_ptr(), status.0);
        status.check()
    }
}

unsafe extern "C" fn create<K: Kernel>(construction: Pointer) -> Pointer {
    match K::new(&Construction(construction)) {
        Ok(kernel) => Box::into_raw(Box::new(kernel)).cast(),
        Err(failure) => {
            let status = Status::of_failure(&failure);
            // SAFETY: the construction is TensorFlow's for this call.
            unsafe { (interface().TF_OpKernelConstruction_Failure)(construction, status.0) };
            ptr::null_mut()
        }
    }
}

unsafe extern "C" fn compute_later<K: Kernel>(kernel: Pointer, context: Pointer, done: Pointer) {
    // SAFETY: the kernel is what `create` made, and lives until `delete`; TensorFlow calls none that failed to be made.
    let kernel = unsafe { &*kernel.cast::<K>() };
    kernel.compute(Call { context, done: Done::Lent(done), is_finished: false });
}

unsafe extern "C" fn compute_now<K: Kernel>(kernel: Pointer, context: Pointer) {
    // SAFETY: as in `compute_later`.
    let kernel = unsafe { &*kernel.cast::<K>() };
    kernel.compute(Call { context, done: Done::Returned, is_finished: false });
}

unsafe extern "C" fn delete<K: Kernel>(kernel: Pointer) {
    if !kernel.is_null() {
        // SAFETY: the kernel is what `create` made, and this is the last that TensorFlow does with it.
        drop(unsafe { Box::from_raw(kernel.cast::<K>()) });
    }
}

/// A tensor of TensorFlow's, and a share in its memory.
pub(super) struct TensorRef(Pointer);

// SAFETY: tensors are counted by atomics, and their memory may be used from any thread.
unsafe impl Send for TensorRef {}

impl TensorRef {
    pub(super) fn dtype(&self) -> Option<DataType> {
        // SAFETY: the tensor lives.
        from_number(unsafe { (interface().TF_TensorType)(self.0) })
    }

    pub(super) fn shape(&self) -> Vec<usize> {
        // SAFETY: the tensor lives, and has so many dimensions.
        unsafe {
            let dimensions = (interface().TF_NumDims)(self.0);
            (0..dimensions).map(|index| usize::try_from((interface().TF_Dim)(self.0, index)).unwrap_or(0)).collect()
        }
    }

    /// The memory, for as long as the tensor is kept.
    pub(super) fn buffer(&self) -> Buffer {
        // SAFETY: whoever gives the buffer to an operation keeps this tensor until the operation is done. Inputs that
        // others share are only read; results are nobody else's.
        unsafe {
            let (address, len) = ((interface().TF_TensorData)(self.0), (interface().TF_TensorByteSize)(self.0));
            Buffer::from_raw(address, len)
        }
    }
}

impl Drop for TensorRef {
    fn drop(&mut self) {
        // SAFETY: TensorFlow gave it to us to delete.
        unsafe { (interface().TF_DeleteTensor)(self.0) };
    }
}

/// What is worth memory of ours. TensorFlow asks for aligned memory, for which the C library (2.36) has another place
/// every time: results of 1 MB went through four places in turn, where a single one stays in the cache.
const OWN_MIN: usize = 64 * 1024;
/// What the address of a tensor must be a multiple of; TensorFlow would copy it otherwise.
const ALIGNMENT: usize = 64;

/// A tensor in memory of ours; none if it is small, or there is no memory.
fn own_tensor(dtype: DataType, shape: &[usize]) -> Option<TensorRef> {
    let (dimensions, bytes) = (dimensions(shape), shape.iter().product::<usize>() * dtype.size());
    let layout = own_layout(bytes).filter(|_| bytes >= OWN_MIN)?;
    // SAFETY: the layout is not empty, and an address within its first bytes is aligned. All that is allocated is given
    // to TensorFlow, which calls `free_own` once, even if it refuses it.
    let tensor = unsafe {
        let base = ptr::NonNull::new(alloc(layout))?.as_ptr();
        let data = base.add(base.align_offset(ALIGNMENT)).cast();
        let (dtype, count) = (to_number(dtype), number(dimensions.len()));
        (interface().TF_NewTensor)(dtype, dimensions.as_ptr(), count, data, bytes, free_own, base.cast())
    };
    (!tensor.is_null()).then_some(TensorRef(tensor))
}

unsafe extern "C" fn free_own(_data: Pointer, bytes: usize, base: Pointer) {
    if let Some(layout) = own_layout(bytes) {
        // SAFETY: what `own_tensor` has allocated, by the same layout.
        unsafe { dealloc(base.cast(), layout) };
    }
}

/// Aligned as all memory is: more would be the other way to allocate again.
fn own_layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(ALIGNMENT)?, size_of::<usize>()).ok()
}

/// How TensorFlow hears that a call is finished.
enum Done {
    /// Good until the kernel returns.
    Lent(Pointer),
    Own(Callback),
    /// By the return of the kernel.
    Returned,
}

/// One execution of an operation.
pub(super) struct Call {
    context: Pointer,
    done: Done,
    is_finished: bool,
}

// SAFETY: TensorFlow lets an asynchronous operation use its context from any thread until it is finished, one at a time.
unsafe impl Send for Call {}

impl Call {
    /// Makes the call one that may be finished later, in any thread. False: this TensorFlow does not let us.
    pub(super) fn detach(&mut self) -> bool {
        match self.done {
            // SAFETY: it is what TensorFlow has lent us for the call that we are still in.
            Done::Lent(done) => match unsafe { Callback::take(done) } {
                Some(callback) => self.done = Done::Own(callback),
                None => return false,
            },
            Done::Own(_) => {}
            Done::Returned => return false,
        }
        true
    }

    pub(super) fn inputs(&self) -> usize {
        // SAFETY: the context lives until the call is finished.
        usize::try_from(unsafe { (interface().TF_NumInputs)(self.context) }).unwrap_or(0)
    }

    pub(super) fn input(&self, index: usize) -> Result<TensorRef, Failure> {
        let (status, mut tensor) = (Status::new(), ptr::null_mut());
        // SAFETY: the context lives, and TensorFlow checks the index.
        unsafe { (interface().TF_GetInput)(self.context, number(index), &raw mut tensor, status.0) };
        status.check().map(|()| TensorRef(tensor))
    }

    /// Makes a result.
    pub(super) fn output(&self, index: usize, dtype: DataType, shape: &[usize]) -> Result<TensorRef, Failure> {
        let (status, dimensions) = (Status::new(), dimensions(shape));
        let bytes = shape.iter().product::<usize>() * dtype.size();
        // SAFETY: the context lives, and the dimensions are as many as is said.
        let tensor = unsafe {
            (interface().TF_AllocateOutput)(
                self.context,
                number(index),
                to_number(dtype),
                dimensions.as_ptr(),
                number(dimensions.len()),
                bytes,
                status.0,
            )
        };
        status.check().map(|()| TensorRef(tensor))
    }

    /// Makes a result, a large one in memory of ours. In a graph the operations after this one could not use that memory
    /// for their own results.
    pub(super) fn own_output(&self, index: usize, dtype: DataType, shape: &[usize]) -> Result<TensorRef, Failure> {
        let Some(own) = own_tensor(dtype, shape) else { return self.output(index, dtype, shape) };
        let status = Status::new();
        // SAFETY: the context and the tensor live; TensorFlow takes a share in the tensor's memory.
        unsafe { (interface().TF_SetOutput)(self.context, number(index), own.0, status.0) };
        status.check().map(|()| own)
    }

    /// Makes the result of an input, of the same shape: in the input's own memory if nobody else needs that. Tells
    /// whether it is. Nobody may hold the input meanwhile.
    pub(super) fn output_of_input(&self, index: usize) -> Result<(TensorRef, bool), Failure> {
        let shape = self.input(index)?.shape();
        let (status, dimensions, candidate, mut forwarded) = (Status::new(), dimensions(&shape), number(index), -1);
        // SAFETY: the context lives, and all arrays are as long as is said.
        let tensor = unsafe {
            (interface().TF_ForwardInputOrAllocateOutput)(
                self.context,
                &raw const candidate,
                1,
                number(index),
                dimensions.as_ptr(),
                number(dimensions.len()),
                &raw mut forwarded,
                status.0,
            )
        };
        status.check().map(|()| (TensorRef(tensor), forwarded >= 0))
    }

    pub(super) fn finish(mut self, result: Result<(), Failure>) {
        self.end(result);
    }

    fn end(&mut self, result: Result<(), Failure>) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        if let Err(failure) = result {
            let status = Status::of_failure(&failure);
            // SAFETY: the context lives until the next line but one.
            unsafe { (interface().TF_OpKernelContext_Failure)(self.context, status.0) };
        }
        let run = |done| {
            if let Some(later) = asynchronous() {
                // SAFETY: it is TensorFlow's own callback, run once.
                unsafe { (later.TF_RunAsyncOpKernelDoneCallback)(done) };
            }
        };
        match &mut self.done {
            Done::Lent(done) => run(*done),
            Done::Own(callback) => callback.call(run),
            Done::Returned => {}
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.end(Err(Failure::new(
            Code::Internal,
            "the operation was forgotten: this is a defect of Ronde, please report it",
        )));
    }
}

fn number(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

fn dimensions(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|rows| i64::try_from(*rows).unwrap_or(i64::MAX)).collect()
}

/// TensorFlow's numbers of types.
const NUMBERS: [(DataType, c_int); 11] = [
    (DataType::F32, 1),
    (DataType::F64, 2),
    (DataType::I32, 3),
    (DataType::U8, 4),
    (DataType::I16, 5),
    (DataType::I8, 6),
    (DataType::I64, 9),
    (DataType::U16, 17),
    (DataType::Bool, 10),
    (DataType::BF16, 14),
    (DataType::F16, 19),
];

fn to_number(dtype: DataType) -> c_int {
    NUMBERS.iter().find(|(each, _)| *each == dtype).map_or(0, |(_, number)| *number)
}

fn from_number(number: c_int) -> Option<DataType> {
    NUMBERS.iter().find(|(_, each)| *each == number).map(|(dtype, _)| *dtype)
}
