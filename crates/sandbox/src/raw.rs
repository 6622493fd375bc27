//! System calls in assembly, without the C library.
//!
//! The C library stores each error in `errno`, in memory of the calling thread. A warden that shares our memory would overwrite the `errno`
//! of one of our threads, so it must not call the C library. `clone3` on a new stack is here as well, because a Rust function cannot
//! return twice.

use std::arch::asm;
use std::ffi::c_void;

use libc::c_long;

/// An argument of a system call: a number or a pointer that fits into a register.
pub(crate) trait RegisterValue {
    /// Converts to the value of the register.
    fn to_register(self) -> usize;
}

/// Implements the trait for signed numbers by sign extension, because the kernel may read any number of bits.
macro_rules! impl_register_value {
    ($($number:ty)*) => {
        $(impl RegisterValue for $number {
            #[expect(clippy::cast_sign_loss, reason = "registers have no sign")]
            fn to_register(self) -> usize {
                self as isize as usize
            }
        })*
    };
}

impl_register_value! { i32 isize }

impl RegisterValue for u32 {
    fn to_register(self) -> usize {
        self as usize
    }
}

impl RegisterValue for usize {
    fn to_register(self) -> usize {
        self
    }
}

impl RegisterValue for u64 {
    /// Never saturates: both supported architectures have registers of 64 bits.
    fn to_register(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }
}

impl<T> RegisterValue for *const T {
    fn to_register(self) -> usize {
        self as usize
    }
}

impl<T> RegisterValue for *mut T {
    fn to_register(self) -> usize {
        self as usize
    }
}

/// Performs a system call. A result below zero is a negated error number.
///
/// # Safety
/// That of the call itself: memory behind pointer arguments must be valid, and of the size that the call expects.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn syscall(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: isize;
    // SAFETY: the registers are those in which the kernel looks, and those that it changes are named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Performs a system call. A result below zero is a negated error number.
///
/// # Safety
/// That of the call itself: memory behind pointer arguments must be valid, and of the size that the call expects.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn syscall(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: isize;
    // SAFETY: the registers are those in which the kernel looks, and those that it changes are named.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
            in("x5") sixth,
            options(nostack),
        );
    }
    result
}

/// The function with which a child process begins; it never returns.
pub(crate) type EntryPoint = extern "C" fn(*const c_void) -> !;

/// Calls `clone3` for a child that runs `entry(data)` on the stack that `arguments` name. Returns the child's number, or a negated error
/// number.
///
/// # Safety
/// `arguments` must be those of `clone3`, of `size` bytes, and name a stack that is used by nothing else for as long as the child lives.
/// `entry` must be sound in that child when it is called with `data`.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn clone(
    arguments: *mut c_void,
    size: usize,
    entry: EntryPoint,
    data: *const c_void,
) -> isize {
    let result: isize;
    // SAFETY: the child has a stack of its own, and never leaves this; here, it is a call like any other.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") arguments,
            in("rsi") size,
            in("r12") data,
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Calls `clone3` for a child that runs `entry(data)` on the stack that `arguments` name. Returns the child's number, or a negated error
/// number.
///
/// # Safety
/// `arguments` must be those of `clone3`, of `size` bytes, and name a stack that is used by nothing else for as long as the child lives.
/// `entry` must be sound in that child when it is called with `data`.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn clone(
    arguments: *mut c_void,
    size: usize,
    entry: EntryPoint,
    data: *const c_void,
) -> isize {
    let result: isize;
    // SAFETY: the child has a stack of its own, and never leaves this; here, it is a call like any other.
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk #1",
            "2:",
            in("x8") libc::SYS_clone3,
            inlateout("x0") arguments => result,
            in("x1") size,
            in("x20") data,
            in("x21") entry,
            options(nostack),
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_call_leaves_errno_of_the_c_library_alone() {
        // SAFETY: the pointer is to this thread's own number.
        unsafe { *libc::__errno_location() = 7 };
        // SAFETY: asks who we are; then closes what cannot be open.
        let (own, refused) = unsafe {
            (
                syscall(libc::SYS_getpid, [0; 6]),
                syscall(libc::SYS_close, [(-1i32).to_register(), 0, 0, 0, 0, 0]),
            )
        };
        assert_eq!(own.unsigned_abs(), std::process::id() as usize);
        assert_eq!(refused, -isize::try_from(libc::EBADF).unwrap());
        // SAFETY: the same.
        assert_eq!(unsafe { *libc::__errno_location() }, 7);
    }
}
