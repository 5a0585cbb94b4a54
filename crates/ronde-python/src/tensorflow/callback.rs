//! How a call is finished after its kernel has returned.
//!
//! TensorFlow hands an asynchronous kernel of its C interface the address of a `std::function<void()>` that is a local
//! variable of its own: good until the kernel returns, which is no use to an asynchronous kernel. So the function is
//! moved out of that variable, as the C++ library's own move constructor would: its four words are taken over, and
//! an empty function stays behind. That this is how a function looks is checked: two of its words must be code. If
//! they are not (another C++ library), nothing is taken, and the caller must finish before it returns.
#![expect(unsafe_code, reason = "a C++ object is moved")]

use std::{ffi::c_void, sync::OnceLock};

/// The third word of a function: what copies and destroys its contents.
const MANAGER: usize = 2;
/// The fourth: what calls them.
const INVOKER: usize = 3;
/// The manager's order to destroy.
const DESTROY: i32 = 3;

type Manager = unsafe extern "C" fn(*mut usize, *const usize, i32) -> bool;

/// A function of C++ that we own.
pub(super) struct Callback([usize; 4]);

impl Callback {
    /// Takes the function out of its variable; none if it does not look like one.
    ///
    /// # Safety
    /// The address must be that of a `std::function` that nobody else uses at the moment.
    pub(super) unsafe fn take(variable: *mut c_void) -> Option<Self> {
        static IS_KNOWN: OnceLock<bool> = OnceLock::new();
        let variable = variable.cast::<[usize; 4]>();
        // SAFETY: every implementation's functions have at least four words.
        let words = unsafe { *variable };
        if !*IS_KNOWN.get_or_init(|| is_code(words[MANAGER]) && is_code(words[INVOKER])) || words[MANAGER] == 0 {
            return None;
        }
        // SAFETY: an empty function; its destructor does nothing.
        unsafe { *variable = [0; 4] };
        Some(Self(words))
    }

    pub(super) fn call(&mut self, run: impl FnOnce(*mut c_void)) {
        run(self.0.as_mut_ptr().cast());
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        let words = self.0.as_mut_ptr();
        // SAFETY: the word was found to be code, and is the manager of a function of this library; the contents are
        // ours and are destroyed once.
        unsafe {
            let manager = std::mem::transmute::<usize, Manager>(self.0[MANAGER]);
            manager(words, words, DESTROY);
        }
    }
}

/// Whether an address is in memory that is executed.
fn is_code(address: usize) -> bool {
    let maps = fs_err::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace();
        let range = fields.next().and_then(|range| range.split_once('-'));
        let (begin, end) = range.map_or((0, 0), |(begin, end)| (hexadecimal(begin), hexadecimal(end)));
        fields.next().is_some_and(|rights| rights.contains('x')) && (begin..end).contains(&address)
    })
}

fn hexadecimal(digits: &str) -> usize {
    usize::from_str_radix(digits, 16).unwrap_or(0)
}
