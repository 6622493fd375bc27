//! Builds the seccomp filters, which refuse system calls that a command of a tool does not need.
//!
//! Refused calls fail with an error, as if the kernel did not have them, which programs can handle. A filter decides by the call's number
//! and by arguments that are numbers, which a program cannot change after the check.
//!
//! A second, smaller filter ([`without_group`]) is for programs that are in no control group: it refuses memory that only a control
//! group counts.

use libc::{c_long, sock_filter};

use bpf::{ARCH, NUMBER, any_bit, argument, end_with, equal, is_call, load, skip_if_equal};

mod bpf;
#[cfg(test)]
mod tests;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

/// Returns the filter result that makes a call fail with an error number.
const fn fail_with(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Calls that are refused with any arguments.
const ALWAYS_REFUSED: &[c_long] = &[
    // Inspection of other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Ways to bypass the filter itself.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Programs and events in the kernel.
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
    OPEN_TREE_ATTR,
    // Files by handle, which bypass paths.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Keyrings of the kernel.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Settings of the whole machine.
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

/// Calls on shared memory, queues and semaphores, which any program can reach that knows their number. Refused if the program has no IPC
/// namespace of its own.
const SHARED_IPC: &[c_long] = &[
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

/// Calls that set an extended attribute. Its name lies in memory, so the filter can refuse all names or none.
const SET_ATTRIBUTES: &[c_long] =
    &[libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, SETXATTRAT];

/// Flags of `clone` and `unshare` that ask for a new namespace.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned()
    | 0x80;

/// `ioctl` requests that put input into a terminal as if a person had typed it: `TIOCSTI`, and `TIOCLINUX`, which can paste.
const FAKE_INPUT: [u32; 2] = [0x5412, 0x541c];
/// The set-user-id and set-group-id bits, with which a program runs with the rights of its file's owner or group.
const SET_ID: u32 = 0o6000;
/// Flags with which `open` uses its mode argument: `O_CREAT`, and the bit of `O_TMPFILE` that is not `O_DIRECTORY`.
const CREATES: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)).cast_unsigned();

// Numbers of calls that the C library has no names for yet; they are the same on every architecture.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const OPEN_TREE_ATTR: c_long = 467;

/// Calls that fail with `ENOSYS`, as on a kernel without them, so that programs fall back to older ones.
const ANSWERED_ENOSYS: &[c_long] = &[
    // Their flags and modes lie in memory, which can change between the check and the call: `clone3` could ask for namespaces,
    // `openat2` for a file that is set-id. `clone` and `openat` do the same with arguments that the filter can read.
    libc::SYS_clone3,
    libc::SYS_openat2,
    // A pipe keeps pages that the program has unmapped, and a whole huge page for a part of it: gigabytes that no counter shows.
    libc::SYS_vmsplice,
    // Pages that the kernel itself does not map.
    libc::SYS_memfd_secret,
];

/// The options of a filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilterOptions {
    /// Internet sockets can be created.
    pub(crate) internet: bool,
    /// Extended attributes cannot be set.
    pub(crate) without_attributes: bool,
    /// The program has no view, so it can reach all other programs, including the warden.
    pub(crate) among_others: bool,
}

/// Builds the filter that every fenced program gets.
pub(crate) fn build_filter(options: FilterOptions) -> Vec<sock_filter> {
    let mut program =
        vec![load(ARCH), skip_if_equal(ARCHITECTURE, 1), end_with(KILL), load(NUMBER)];
    // The x32 calls have numbers of their own, which the rules below do not know.
    #[cfg(target_arch = "x86_64")]
    program.extend([bpf::at_least(0x4000_0000, 1), end_with(fail_with(libc::ENOSYS))]);
    // The most frequent calls are checked first.
    refuse_opening_set_id(&mut program);
    for number in ALWAYS_REFUSED {
        program.extend([is_call(*number, 1), end_with(fail_with(libc::EPERM))]);
    }
    for number in ANSWERED_ENOSYS {
        program.extend([is_call(*number, 1), end_with(fail_with(libc::ENOSYS))]);
    }
    if options.without_attributes {
        // As on a file system without attributes: programs that copy files go on without them.
        for number in SET_ATTRIBUTES {
            program.extend([is_call(*number, 1), end_with(fail_with(libc::EOPNOTSUPP))]);
        }
    }
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        refuse_if_any_bit(&mut program, call, 0, NEW_NAMESPACES);
    }
    refuse_set_id_modes(&mut program);
    refuse_terminal_input(&mut program);
    protect_warden(&mut program, options);
    if options.among_others {
        refuse_shared_ipc(&mut program);
    }
    refuse_huge_pages(&mut program);
    restrict_sockets(&mut program, options);
    program.push(end_with(ALLOW));
    program
}

/// Builds the additional filter for a program in no control group, used on top of [`build_filter`].
///
/// The memory of a `memfd` belongs to no process unless it is mapped, so the warden cannot count it. Programs fall back to files
/// in `/dev/shm`, whose size is bounded.
pub(crate) fn build_no_group_filter() -> Vec<sock_filter> {
    vec![
        load(NUMBER),
        is_call(libc::SYS_memfd_create, 1),
        end_with(fail_with(libc::ENOSYS)),
        end_with(ALLOW),
    ]
}

/// Builds the filter that makes rename calls wait for an answer (see [`crate::renames`]). All other calls pass, and so do calls of another
/// architecture, whose numbers have another meaning.
pub(crate) fn build_rename_filter() -> Vec<sock_filter> {
    let mut program =
        vec![load(ARCH), skip_if_equal(ARCHITECTURE, 1), end_with(ALLOW), load(NUMBER)];
    for number in [
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename,
        libc::SYS_renameat,
        libc::SYS_renameat2,
    ] {
        program.extend([is_call(number, 1), end_with(libc::SECCOMP_RET_USER_NOTIF)]);
    }
    program.push(end_with(ALLOW));
    program
}

/// Adds instructions that apply to one call only. They must end with an answer on every path.
fn add_rule(program: &mut Vec<sock_filter>, call: c_long, instructions: &[sock_filter]) {
    let length = u8::try_from(instructions.len()).unwrap_or(u8::MAX);
    program.push(is_call(call, length));
    program.extend_from_slice(instructions);
}

/// Refuses a call if one of these bits is set in an argument.
fn refuse_if_any_bit(program: &mut Vec<sock_filter>, call: c_long, at: u32, bits: u32) {
    let refused = end_with(fail_with(libc::EPERM));
    add_rule(program, call, &[load(argument(at)), any_bit(bits, 1), refused, end_with(ALLOW)]);
}

/// Refuses to open a file that would be set-id from its beginning. Without [`CREATES`], the argument for the mode is not set.
fn refuse_opening_set_id(program: &mut Vec<sock_filter>) {
    for (call, flags, mode) in [
        (libc::SYS_openat, 2, 3),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1, 2),
    ] {
        let instructions = [
            load(argument(flags)),
            any_bit(CREATES, 3),
            load(argument(mode)),
            any_bit(SET_ID, 1),
            end_with(fail_with(libc::EPERM)),
            end_with(ALLOW),
        ];
        add_rule(program, call, &instructions);
    }
}

/// Refuses huge pages from the machine's pool, which neither the warden nor a control group counts as memory. `ENOMEM` is what a
/// machine without a pool says.
fn refuse_huge_pages(program: &mut Vec<sock_filter>) {
    for (call, flags, bit) in [
        (libc::SYS_mmap, 3, libc::MAP_HUGETLB),
        (libc::SYS_shmget, 2, libc::SHM_HUGETLB),
        (libc::SYS_memfd_create, 1, libc::MFD_HUGETLB.cast_signed()),
    ] {
        let instructions = [
            load(argument(flags)),
            any_bit(bit.cast_unsigned(), 1),
            end_with(fail_with(libc::ENOMEM)),
            end_with(ALLOW),
        ];
        add_rule(program, call, &instructions);
    }
}

/// Refuses modes that are set-id. `mkdir` needs no rule: the kernel ignores these bits there, and a set-group-ID bit that a
/// directory inherits only passes on its group.
fn refuse_set_id_modes(program: &mut Vec<sock_filter>) {
    for (call, mode) in [
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (FCHMODAT2, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
        (libc::SYS_mknodat, 2),
    ] {
        refuse_if_any_bit(program, call, mode, SET_ID);
    }
}

/// Refuses the `ioctl` requests that put input into a terminal.
fn refuse_terminal_input(program: &mut Vec<sock_filter>) {
    let [first, second] = FAKE_INPUT;
    let refused = end_with(fail_with(libc::EPERM));
    let instructions =
        [load(argument(1)), equal(first, 1), refused, equal(second, 1), refused, end_with(ALLOW)];
    add_rule(program, libc::SYS_ioctl, &instructions);
}

/// Refuses calls that change limits and priorities of the warden: without open files, or without processor time, it could not measure.
///
/// In a view the warden is process 1, and all others are the program's. Elsewhere its number is not known, so that a process can
/// change only itself, named 0.
fn protect_warden(program: &mut Vec<sock_filter>, options: FilterOptions) {
    const IOPRIO_WHO_USER: u32 = 3;
    let refused = end_with(fail_with(libc::EPERM));
    // Continues with the refusal, or skips it.
    let is_warden = if options.among_others { skip_if_equal(0, 1) } else { equal(1, 1) };
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ] {
        add_rule(program, call, &[load(argument(0)), is_warden, refused, end_with(ALLOW)]);
    }
    // These can name all processes of a user, the warden among them.
    for (call, user) in
        [(libc::SYS_setpriority, libc::PRIO_USER), (libc::SYS_ioprio_set, IOPRIO_WHO_USER)]
    {
        let instructions = [
            load(argument(0)),
            skip_if_equal(user, 2),
            load(argument(1)),
            is_warden,
            refused,
            end_with(ALLOW),
        ];
        add_rule(program, call, &instructions);
    }
}

/// Refuses ways to other programs for a program without a view: shared memory and queues, and socket pairs of datagram or raw type, which
/// can be pointed at any other socket.
fn refuse_shared_ipc(program: &mut Vec<sock_filter>) {
    const WITHOUT_CONNECTION: u32 = 0b10;
    for number in SHARED_IPC {
        program.extend([is_call(*number, 1), end_with(fail_with(libc::EPERM))]);
    }
    refuse_if_any_bit(program, libc::SYS_socketpair, 1, WITHOUT_CONNECTION);
}

/// Allows local sockets only in a view: outside one, another program's server could act for the program, and Landlock cannot tell whose
/// socket it is. With the internet option, allows internet sockets and netlink routing queries. Refuses all other kinds of sockets.
fn restrict_sockets(program: &mut Vec<sock_filter>, options: FilterOptions) {
    let [local, v4, v6, netlink] =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(i32::cast_unsigned);
    let mut instructions = vec![load(argument(0))];
    if !options.among_others {
        instructions.extend([equal(local, 1), end_with(ALLOW)]);
    }
    if options.internet {
        instructions.extend([equal(v4, 1), end_with(ALLOW), equal(v6, 1), end_with(ALLOW)]);
        instructions.extend([equal(netlink, 3), load(argument(2)), equal(0, 1), end_with(ALLOW)]);
    }
    instructions.push(end_with(fail_with(libc::EAFNOSUPPORT)));
    add_rule(program, libc::SYS_socket, &instructions);
}
