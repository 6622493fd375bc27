//! The filter of system calls: what has no place in a tool's command is refused before the kernel does anything.
//!
//! Refused calls fail with an error, as if the kernel did not have them; programs know how to live with that. The filter decides by
//! number and by arguments that are numbers: nothing that a program could change after it was looked at.

use libc::{c_long, sock_filter};

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

const fn refuse(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Offsets into what a filter is shown.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const fn argument(number: u32) -> u32 {
    // The lower half; both architectures store it first.
    16 + 8 * number
}

/// Refused whatever the arguments are.
const REFUSED: &[c_long] = &[
    // Looking into other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Ways around the filter itself.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The kernel's own programs and events.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    // Namespaces and mounts.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Files by handle go around paths.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Keys.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
    libc::SYS_syslog,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Refused where there is no namespace of its own for them: memory, queues and locks of other programs, which anybody can reach who
/// knows their number.
const SHARED: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Every flag that asks for a new namespace.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned()
    | 0x80;

/// Types into a terminal as if somebody did; whatever else it does to a console.
const FAKE_INPUT: [u32; 2] = [0x5412, 0x541c];
/// Runs with the rights of the file's owner or group.
const SET_ID: u32 = 0o6000;

/// What a filter has to hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// Sockets of the internet can be made.
    pub(crate) internet: bool,
    /// There is no view: all other programs are within reach, the warden too.
    pub(crate) among_others: bool,
}

/// The same on every processor; the C library's names do not have it for all.
const FCHMODAT2: libc::c_long = 452;

/// The filter.
pub(crate) fn program(held: Held) -> Vec<sock_filter> {
    let mut program =
        vec![load(ARCH), unless_equal(ARCHITECTURE, 0, 1), answer(KILL), load(NUMBER)];
    // The second way to call an old processor's kernel.
    #[cfg(target_arch = "x86_64")]
    program.extend([at_least(0x4000_0000), answer(refuse(libc::ENOSYS))]);
    for number in REFUSED {
        program.extend([is_call(*number, 1), answer(refuse(libc::EPERM))]);
    }
    // Its flags lie in memory, where they can be changed while we look; who is refused it uses the older one.
    program.extend([is_call(libc::SYS_clone3, 1), answer(refuse(libc::ENOSYS))]);
    for (call, flags) in [(libc::SYS_clone, 0), (libc::SYS_unshare, 0)] {
        with_bits(&mut program, call, flags, NEW_NAMESPACES);
    }
    for (call, mode) in [
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (FCHMODAT2, 2),
    ] {
        with_bits(&mut program, call, mode, SET_ID);
    }
    ioctls(&mut program);
    if held.among_others {
        others(&mut program);
    }
    sockets(&mut program, held);
    program.push(answer(ALLOW));
    program
}

/// Refuses a call if one of these bits is set in an argument.
fn with_bits(program: &mut Vec<sock_filter>, call: c_long, at: u32, bits: u32) {
    program.extend([
        is_call(call, 4),
        load(argument(at)),
        any_bit(bits, 1),
        answer(refuse(libc::EPERM)),
        answer(ALLOW),
    ]);
}

fn ioctls(program: &mut Vec<sock_filter>) {
    let [first, second] = FAKE_INPUT;
    program.extend([
        is_call(libc::SYS_ioctl, 6),
        load(argument(1)),
        equal(first, 1),
        answer(refuse(libc::EPERM)),
        equal(second, 1),
        answer(refuse(libc::EPERM)),
        answer(ALLOW),
    ]);
}

/// Ways to other programs that a view has not: a limit of processor time would end the warden, and of a pair of sockets, those
/// that keep messages apart without a connection can be made to talk to any other.
fn others(program: &mut Vec<sock_filter>) {
    const WITHOUT_CONNECTION: u32 = 0b10;
    for number in SHARED {
        program.extend([is_call(*number, 1), answer(refuse(libc::EPERM))]);
    }
    program.extend([
        is_call(libc::SYS_prlimit64, 4),
        load(argument(0)),
        equal(0, 1),
        answer(ALLOW),
        answer(refuse(libc::EPERM)),
    ]);
    with_bits(program, libc::SYS_socketpair, 1, WITHOUT_CONNECTION);
}

/// Local sockets, unless there are others to talk to: who serves one may do whatever it is asked for, and Landlock does not know
/// whose it is. With the internet, those of the internet and questions about routes; nothing else, be it new or old.
fn sockets(program: &mut Vec<sock_filter>, held: Held) {
    let [local, v4, v6, netlink] =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(i32::cast_unsigned);
    let mut rules = vec![load(argument(0))];
    if !held.among_others {
        rules.extend([equal(local, 1), answer(ALLOW)]);
    }
    if held.internet {
        rules.extend([equal(v4, 1), answer(ALLOW), equal(v6, 1), answer(ALLOW)]);
        rules.extend([equal(netlink, 3), load(argument(2)), equal(0, 1), answer(ALLOW)]);
    }
    rules.push(answer(refuse(libc::EAFNOSUPPORT)));
    let length = u8::try_from(rules.len()).unwrap_or(u8::MAX);
    program.push(is_call(libc::SYS_socket, length));
    program.extend(rules);
}

fn load(offset: u32) -> sock_filter {
    sock_filter { code: 0x20, jt: 0, jf: 0, k: offset }
}

fn answer(value: u32) -> sock_filter {
    sock_filter { code: 0x06, jt: 0, jf: 0, k: value }
}

/// Goes on if equal; skips so many otherwise.
fn equal(value: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x15, jt: 0, jf: otherwise, k: value }
}

fn unless_equal(value: u32, otherwise: u8, then: u8) -> sock_filter {
    sock_filter { code: 0x15, jt: then, jf: otherwise, k: value }
}

/// Goes on if it is this call; the number of the call must be loaded. Skips so many otherwise.
fn is_call(number: c_long, otherwise: u8) -> sock_filter {
    equal(u32::try_from(number).unwrap_or(u32::MAX), otherwise)
}

#[cfg(target_arch = "x86_64")]
fn at_least(value: u32) -> sock_filter {
    sock_filter { code: 0x35, jt: 0, jf: 1, k: value }
}

/// Goes on if one of the bits is set; skips so many otherwise.
fn any_bit(bits: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x45, jt: 0, jf: otherwise, k: bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a filter answers: the machine of the kernel, as far as we use it.
    fn run(program: &[sock_filter], arch: u32, number: c_long, arguments: [u64; 6]) -> u32 {
        let mut accumulator = 0;
        let mut at = 0;
        loop {
            let step = program[at];
            at += 1;
            let jump = |is: bool| usize::from(if is { step.jt } else { step.jf });
            match step.code {
                0x20 => {
                    accumulator = match step.k {
                        NUMBER => u32::try_from(number).unwrap(),
                        ARCH => arch,
                        k => u32::try_from(arguments[(k as usize - 16) / 8] & 0xffff_ffff).unwrap(),
                    }
                }
                0x06 => return step.k,
                0x15 => at += jump(accumulator == step.k),
                0x35 => at += jump(accumulator >= step.k),
                0x45 => at += jump(accumulator & step.k != 0),
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    #[test]
    fn what_is_refused() {
        let eperm = refuse(libc::EPERM);
        let family = refuse(libc::EAFNOSUPPORT);
        let user = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
        let args = |list: &[u64]| {
            let mut all = [0; 6];
            all[..list.len()].copy_from_slice(list);
            all
        };
        for (internet, call, arguments, wanted) in [
            (false, libc::SYS_read, args(&[]), ALLOW),
            (false, libc::SYS_execve, args(&[]), ALLOW),
            (true, libc::SYS_ptrace, args(&[]), eperm),
            (true, libc::SYS_io_uring_setup, args(&[]), eperm),
            (true, libc::SYS_mount, args(&[]), eperm),
            (true, libc::SYS_clone3, args(&[]), refuse(libc::ENOSYS)),
            (true, libc::SYS_clone, args(&[17]), ALLOW),
            (true, libc::SYS_clone, args(&[user | 0x11]), eperm),
            (true, libc::SYS_unshare, args(&[user]), eperm),
            (true, libc::SYS_unshare, args(&[0x400]), ALLOW),
            (true, libc::SYS_fchmodat, args(&[0, 0, 0o4755]), eperm),
            (true, libc::SYS_fchmodat, args(&[0, 0, 0o755]), ALLOW),
            (true, libc::SYS_ioctl, args(&[0, 0x5412]), eperm),
            (true, libc::SYS_ioctl, args(&[0, 0x541c]), eperm),
            (true, libc::SYS_ioctl, args(&[0, 0x5413]), ALLOW),
            (false, libc::SYS_socket, args(&[1, 1, 0]), ALLOW),
            (false, libc::SYS_socket, args(&[2, 1, 0]), family),
            (false, libc::SYS_socket, args(&[16, 3, 0]), family),
            (true, libc::SYS_socket, args(&[2, 1, 0]), ALLOW),
            (true, libc::SYS_socket, args(&[10, 2, 0]), ALLOW),
            (true, libc::SYS_socket, args(&[16, 3, 0]), ALLOW),
            (true, libc::SYS_socket, args(&[16, 3, 15]), family),
            (true, libc::SYS_socket, args(&[40, 1, 0]), family),
            (true, libc::SYS_socket, args(&[17, 3, 0]), family),
        ] {
            for among_others in [false, true] {
                let program = program(Held { internet, among_others });
                let answered = run(&program, ARCHITECTURE, call, arguments);
                let is_local = call == libc::SYS_socket && arguments[0] == 1;
                let wanted = if among_others && is_local { family } else { wanted };
                assert_eq!(answered, wanted, "call {call} {arguments:?}");
                assert_eq!(run(&program, 0x4000_0003, call, arguments), KILL);
            }
        }
    }

    #[test]
    fn what_is_refused_among_others() {
        let cloexec = u64::from(libc::SOCK_CLOEXEC.cast_unsigned());
        for (call, arguments, is_refused) in [
            (libc::SYS_shmat, [0; 6], true),
            (libc::SYS_semget, [0; 6], true),
            (libc::SYS_mq_open, [0; 6], true),
            (libc::SYS_prlimit64, [0; 6], false),
            (libc::SYS_prlimit64, [1, 0, 0, 0, 0, 0], true),
            (libc::SYS_socketpair, [1, 1 | cloexec, 0, 0, 0, 0], false),
            (libc::SYS_socketpair, [1, 5, 0, 0, 0, 0], false),
            (libc::SYS_socketpair, [1, 2 | cloexec, 0, 0, 0, 0], true),
            (libc::SYS_socketpair, [1, 3, 0, 0, 0, 0], true),
        ] {
            for among_others in [false, true] {
                let program = program(Held { internet: false, among_others });
                let answered = run(&program, ARCHITECTURE, call, arguments);
                let refused = is_refused && among_others;
                let wanted = if refused { refuse(libc::EPERM) } else { ALLOW };
                assert_eq!(answered, wanted, "call {call} {arguments:?} {among_others}");
            }
        }
    }
}
