//! The end of the process. MLX keeps global objects that C++ destroys when a process ends; the engine's thread may still
//! compute with them at that moment, and the process would die of it after all its work was done.

use std::io::Write;

/// From now on the process ends without C++ destructors of what exists already; output is flushed first. Handlers run in
/// reverse order, so this is called again after whatever may have made more globals. Only glibc tells a handler the exit
/// status; elsewhere (macOS) a program ends through [`leave`].
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(crate) fn skip_destructors() {
    use std::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }
    extern "C" fn handler(status: c_int, _: *mut c_void) {
        quit(status)
    }
    // SAFETY: the handler takes no argument and lives as long as the program. A refusal leaves things as they were.
    unsafe {
        on_exit(handler, std::ptr::null_mut());
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn skip_destructors() {}

/// Settings that MLX reads from the environment once, before it computes. The first thing that a program's `main` does, while no other
/// thread runs. What is set already stays.
///
/// cuDNN's attention, which MLX takes on CUDA by default, builds a graph on the host for every pair of query rows and keys, which
/// speculation meets by the hundred: 20 ms each, and an error at the 256th. MLX's own kernels have no such cost.
#[allow(unsafe_code)]
pub fn prepare() {
    const SETTINGS: [(&str, &str); 1] = [("MLX_CUDA_USE_CUDNN_SDPA", "0")];
    for (name, value) in SETTINGS.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
        // SAFETY: no other thread runs yet that could read the environment.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Ends the process with `status` at once, without destructors of C++ globals, whatever the engine's thread is doing.
/// Output is flushed first. The last thing that a program's `main` does, on every system.
pub fn leave(status: u8) -> ! {
    // A closed pipe is no reason to stay.
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    quit(status.into())
}

/// Flushes C's streams and ends the process.
#[allow(unsafe_code)]
fn quit(status: std::ffi::c_int) -> ! {
    // SAFETY: neither call touches memory of ours.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(status)
    }
}
