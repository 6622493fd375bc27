//! Tests the filters in an interpreter of the BPF instructions that they use.

use super::*;

/// Interprets a filter as the kernel does, for one system call. Returns the filter's result.
fn interpret(program: &[sock_filter], arch: u32, number: c_long, arguments: [u64; 6]) -> u32 {
    let mut accumulator = 0;
    let mut at = 0;
    loop {
        let instruction = program[at];
        at += 1;
        let jump = |is: bool| usize::from(if is { instruction.jt } else { instruction.jf });
        match instruction.code {
            0x20 => {
                accumulator = match instruction.k {
                    NUMBER => u32::try_from(number).unwrap(),
                    ARCH => arch,
                    k => u32::try_from(arguments[(k as usize - 16) / 8] & 0xffff_ffff).unwrap(),
                }
            }
            0x06 => return instruction.k,
            0x15 => at += jump(accumulator == instruction.k),
            0x35 => at += jump(accumulator >= instruction.k),
            0x45 => at += jump(accumulator & instruction.k != 0),
            code => panic!("unknown instruction {code:#x}"),
        }
    }
}

#[test]
fn calls_are_allowed_or_refused_by_number_and_arguments() {
    let eperm = fail_with(libc::EPERM);
    let enosys = fail_with(libc::ENOSYS);
    let family = fail_with(libc::EAFNOSUPPORT);
    let [create, nameless, directory] = [libc::O_CREAT, libc::O_TMPFILE, libc::O_DIRECTORY]
        .map(|flag| u64::from(flag.cast_unsigned()));
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
        (true, libc::SYS_clone3, args(&[]), enosys),
        (true, libc::SYS_openat2, args(&[]), enosys),
        (true, libc::SYS_vmsplice, args(&[]), enosys),
        (true, libc::SYS_openat, args(&[0, 0, create, 0o6755]), eperm),
        (true, libc::SYS_openat, args(&[0, 0, create, 0o1755]), ALLOW),
        (true, libc::SYS_openat, args(&[0, 0, nameless, 0o2755]), eperm),
        (true, libc::SYS_openat, args(&[0, 0, directory, 0o6755]), ALLOW),
        (true, libc::SYS_mknodat, args(&[0, 0, 0o104_755]), eperm),
        (true, libc::SYS_mknodat, args(&[0, 0, 0o100_755]), ALLOW),
        (true, libc::SYS_mkdirat, args(&[0, 0, 0o2755]), ALLOW),
        (true, libc::SYS_mmap, args(&[0, 0, 3, 0x22]), ALLOW),
        (true, libc::SYS_mmap, args(&[0, 0, 3, 0x4_0022]), fail_with(libc::ENOMEM)),
        (true, libc::SYS_memfd_create, args(&[0, 1]), ALLOW),
        (true, libc::SYS_memfd_create, args(&[0, 5]), fail_with(libc::ENOMEM)),
        (true, libc::SYS_setpriority, args(&[0, 0, 19]), ALLOW),
        (true, libc::SYS_setpriority, args(&[0, 1, 19]), eperm),
        (true, libc::SYS_setpriority, args(&[2, 0, 19]), eperm),
        (true, libc::SYS_ioprio_set, args(&[1, 0, 0]), ALLOW),
        (true, libc::SYS_ioprio_set, args(&[1, 1, 0]), eperm),
        (true, libc::SYS_ioprio_set, args(&[3, 0, 0]), eperm),
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
            let program =
                build_filter(FilterOptions { internet, without_attributes: false, among_others });
            let answered = interpret(&program, ARCHITECTURE, call, arguments);
            let is_local = call == libc::SYS_socket && arguments[0] == 1;
            let wanted = if among_others && is_local { family } else { wanted };
            assert_eq!(answered, wanted, "call {call} {arguments:?}");
            assert_eq!(interpret(&program, 0x4000_0003, call, arguments), KILL);
        }
    }
}

#[test]
fn shared_ipc_and_unconnected_socket_pairs_are_refused_without_a_view() {
    let cloexec = u64::from(libc::SOCK_CLOEXEC.cast_unsigned());
    for (call, arguments, is_refused) in [
        (libc::SYS_shmget, [0; 6], true),
        (libc::SYS_shmat, [0; 6], true),
        (libc::SYS_semget, [0; 6], true),
        (libc::SYS_mq_open, [0; 6], true),
        (libc::SYS_socketpair, [1, 1 | cloexec, 0, 0, 0, 0], false),
        (libc::SYS_socketpair, [1, 5, 0, 0, 0, 0], false),
        (libc::SYS_socketpair, [1, 2 | cloexec, 0, 0, 0, 0], true),
        (libc::SYS_socketpair, [1, 3, 0, 0, 0, 0], true),
    ] {
        for among_others in [false, true] {
            let program = build_filter(FilterOptions {
                internet: false,
                without_attributes: false,
                among_others,
            });
            let answered = interpret(&program, ARCHITECTURE, call, arguments);
            let refused = is_refused && among_others;
            let wanted = if refused { fail_with(libc::EPERM) } else { ALLOW };
            assert_eq!(answered, wanted, "call {call} {arguments:?} {among_others}");
        }
    }
}

#[test]
fn setting_extended_attributes_is_refused_if_the_fence_asks_for_it() {
    for without_attributes in [false, true] {
        let program = build_filter(FilterOptions {
            internet: false,
            without_attributes,
            among_others: false,
        });
        let wanted = if without_attributes { fail_with(libc::EOPNOTSUPP) } else { ALLOW };
        for call in SET_ATTRIBUTES {
            assert_eq!(interpret(&program, ARCHITECTURE, *call, [0; 6]), wanted, "call {call}");
        }
        assert_eq!(interpret(&program, ARCHITECTURE, libc::SYS_getxattr, [0; 6]), ALLOW);
    }
}

/// In a view the warden is process 1. Without one its number is unknown, so only 0, the caller itself, is allowed.
#[test]
fn limits_and_scheduling_of_the_warden_are_refused() {
    let calls = [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ];
    for (process, in_view, among_all) in [
        (0, false, false),
        (1, true, true),
        (1 | 7 << 32, true, true),
        (2, false, true),
        (u64::MAX, false, true),
    ] {
        for (among_others, is_refused) in [(false, in_view), (true, among_all)] {
            let program = build_filter(FilterOptions {
                internet: false,
                without_attributes: false,
                among_others,
            });
            for call in calls {
                let answered = interpret(&program, ARCHITECTURE, call, [process, 0, 0, 0, 0, 0]);
                let wanted = if is_refused { fail_with(libc::EPERM) } else { ALLOW };
                assert_eq!(answered, wanted, "call {call} {process} {among_others}");
            }
        }
    }
}

#[test]
fn memfd_is_missing_without_a_control_group() {
    let program = build_no_group_filter();
    for (call, wanted) in
        [(libc::SYS_memfd_create, fail_with(libc::ENOSYS)), (libc::SYS_mmap, ALLOW)]
    {
        assert_eq!(interpret(&program, ARCHITECTURE, call, [0; 6]), wanted, "call {call}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn legacy_calls_and_x32_calls_are_refused() {
    let program = build_filter(FilterOptions {
        internet: true,
        without_attributes: false,
        among_others: false,
    });
    let create = u64::from(libc::O_CREAT.cast_unsigned());
    for (call, arguments, errno) in [
        (libc::SYS_open, [0, create, 0o4755, 0, 0, 0], libc::EPERM),
        (libc::SYS_creat, [0, 0o2755, 0, 0, 0, 0], libc::EPERM),
        (libc::SYS_mknod, [0, 0o104_755, 0, 0, 0, 0], libc::EPERM),
        (libc::SYS_chmod, [0, 0o4755, 0, 0, 0, 0], libc::EPERM),
        (0x4000_0000 | libc::SYS_read, [0; 6], libc::ENOSYS),
        (0x4000_0000 | libc::SYS_open, [0; 6], libc::ENOSYS),
        (0x4000_0221, [0; 6], libc::ENOSYS),
    ] {
        assert_eq!(
            interpret(&program, ARCHITECTURE, call, arguments),
            fail_with(errno),
            "call {call:#x}"
        );
    }
}
