//! Another user's process on the same machine can neither join a job nor read its memory.
//!
//! Needs to be root, to become somebody else; says so and passes otherwise.

mod common;

use boxwise::Communicator;
use common::case::Case;
use common::harness::{self, Test};
use common::job::{self, Job};
use common::memory::Kinds;
use common::play::Player;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

const RANKS: usize = 3;
/// The user called nobody.
const STRANGER: u32 = 65534;
const LIMIT: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    match job::role().as_deref() {
        None => harness::run(vec![
            Test::new("a_stranger_cannot_join_or_read", cannot_join_or_read),
            Test::new("nobody_joins_a_stranger", nobody_joins),
        ]),
        Some("rank") => rank(),
        Some("stranger") => stranger(),
        Some("squatter") => squatter(),
        Some(other) => panic!("{other} is not a role"),
    }
}

/// Whether this process may become another user's; says why not.
fn can_be_a_stranger() -> bool {
    let tried = Command::new("true").uid(STRANGER).gid(STRANGER).current_dir("/").status();
    if let Err(error) = &tried {
        println!("skipped: cannot start a process of another user, which takes root: {error}");
    }
    tried.is_ok()
}

/// This program as another user, from a place where that user may run it.
fn strange_command(job: &Job) -> Command {
    let program = job.directory().join("program");
    std::fs::copy(job::own_program(), &program).expect("a copy of this program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a program for everyone");
    std::fs::set_permissions(job.directory(), std::fs::Permissions::from_mode(0o777)).expect("a place for everyone");
    let mut command = Command::new(program);
    command.uid(STRANGER).gid(STRANGER).current_dir("/");
    command
}

/// A rank of a job: forms the world, the last rank late, and moves something.
fn rank() -> ExitCode {
    let rank: usize = std::env::var("BOXWISE_RANK").expect("under boxwise-run").parse().expect("a rank");
    job::note(rank, &format!("pid {}", std::process::id()));
    if rank + 1 == RANKS {
        // Until the stranger has tried everything; then until the world works, and again.
        wait_for("world");
    }
    let comm = match Communicator::world() {
        Ok(comm) => comm,
        Err(error) => {
            job::note(rank, &format!("refused {:?} {}", error.status, error.detail));
            return ExitCode::SUCCESS;
        }
    };
    let mut player = Player::new(comm, Kinds::Mixed).expect("memory");
    for seed in 0..20 {
        player.play(&Case::new(seed, RANKS)).expect("a case");
    }
    job::note(rank, "formed");
    wait_for("end");
    for seed in 20..40 {
        player.play(&Case::new(seed, RANKS)).expect("a case");
    }
    job::note(rank, "well");
    ExitCode::SUCCESS
}

/// Until the test has put a file of this name among the notes.
fn wait_for(name: &str) {
    let path = PathBuf::from(std::env::var("TEST_NOTES").expect("a job")).join(name);
    let begun = std::time::Instant::now();
    while !path.exists() && begun.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn cannot_join_or_read() -> Result<(), String> {
    if !can_be_a_stranger() {
        return Ok(());
    }
    let job = Job::launched(RANKS, "rank", &[]);
    let mut pids = vec![job.children[0].id().to_string()];
    for rank in 0..RANKS {
        pids.push(job.wait_for_note(rank, "pid", LIMIT)?);
    }
    let begun = std::time::Instant::now();
    let sockets = loop {
        let own = |name: &String| job::holders(name).iter().any(|holder| job.processes().contains(holder));
        let new: Vec<String> = job::sockets().into_iter().filter(own).collect();
        match new.is_empty() && begun.elapsed() < LIMIT {
            true => std::thread::sleep(Duration::from_millis(5)),
            false => break new,
        }
    };
    if sockets.is_empty() {
        return Err("no socket was seen while the job formed: this test tests nothing".into());
    }
    // The stranger even knows what it could not know: the environment of the missing rank.
    let environment = std::fs::read(format!("/proc/{}/environ", pids[RANKS])).map_err(|error| error.to_string())?;
    let stolen: Vec<(String, String)> = environment
        .split(|&byte| byte == 0)
        .filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
        .filter(|(name, _)| name.starts_with("BOXWISE_"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for (when, name) in [("while forming", "world"), ("at work", "end")] {
        let visitor = Job::new("stranger");
        let command = strange_command(&visitor);
        let (sockets, pids) = (sockets.join(" "), pids.join(" "));
        let mut variables = vec![("TEST_SOCKETS", sockets.as_str()), ("TEST_PIDS", pids.as_str())];
        variables.extend(stolen.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        variables.push(("BOXWISE_BOOT_TIMEOUT_MS", "1000"));
        let seen = visitor.with(command, &variables).wait(LIMIT)?;
        let notes = seen.notes[0].join("\n");
        if !seen.statuses[0].success() || !notes.contains("tried") || notes.contains("GOT") {
            return Err(format!("{when}: {seen:#?}"));
        }
        std::fs::write(job.directory().join(name), "").map_err(|error| error.to_string())?;
        if name == "world" {
            (0..RANKS).try_for_each(|rank| job.wait_for_note(rank, "formed", LIMIT).map(drop))?;
        }
    }
    let outcome = job.wait(LIMIT)?;
    match (0..RANKS).all(|rank| outcome.notes[rank].iter().any(|line| line == "well")) {
        true => Ok(()),
        false => Err(format!("the job was harmed: {outcome:#?}")),
    }
}

/// Everything another user may think of; notes `GOT` for whatever works.
fn stranger() -> ExitCode {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // SAFETY: always succeeds, touches nothing.
    assert_eq!(unsafe { libc::geteuid() }, STRANGER, "a stranger is somebody else");
    let (mut tried, mut opened) = (0, Vec::new());
    for pid in variable("TEST_PIDS").split_whitespace() {
        let process = format!("/proc/{pid}");
        for what in ["mem", "environ", "maps"] {
            let mut byte = [0];
            tried += 1;
            if std::fs::File::open(format!("{process}/{what}")).and_then(|mut file| file.read(&mut byte)).is_ok() {
                opened.push(format!("{process}/{what}"));
            }
        }
        for fd in 0..64 {
            tried += 1;
            if std::fs::File::open(format!("{process}/fd/{fd}")).is_ok() {
                opened.push(format!("{process}/fd/{fd}"));
            }
        }
        tried += 2;
        opened.extend(std::fs::read_dir(format!("{process}/map_files")).is_ok().then(|| "map_files".into()));
        opened.extend(reads_memory(pid.parse().expect("a process")).then(|| format!("the memory of {pid}")));
    }
    for name in variable("TEST_SOCKETS").split_whitespace() {
        tried += 1;
        opened.extend(joins(name.trim_start_matches('@')).then(|| format!("an answer from {name}")));
    }
    // With the library itself, as the rank that is still missing.
    tried += 1;
    opened.extend(Communicator::world().is_ok().then(|| "the world".to_owned()));
    opened.iter().for_each(|what| job::note(0, &format!("GOT {what}")));
    job::note(0, &format!("tried {tried} things"));
    ExitCode::SUCCESS
}

fn reads_memory(pid: i32) -> bool {
    let mut bytes = [0u8; 8];
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 8 };
    // Any address will do: permission is checked first, and denied differently from a fault.
    let there = here;
    // SAFETY: the local part is as long as said; the remote part is only an address.
    let read = unsafe { libc::process_vm_readv(pid, &here, 1, &there, 1, 0) };
    read >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
}

fn address(name: &str) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    (address, (std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len()) as libc::socklen_t)
}

/// Whether an abstract socket answers one who claims to be any of the ranks.
fn joins(name: &str) -> bool {
    let (address, length) = address(name);
    (1..RANKS as u32).any(|rank| {
        let hello = [&b"boxwise1"[..], &rank.to_le_bytes(), &(RANKS as u32).to_le_bytes()].concat();
        let mut answer = [0u8; 256];
        // SAFETY: addresses and buffers are as long as said, and the descriptor is closed by the file.
        unsafe {
            let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0);
            let _closes = std::fs::File::from_raw_fd(fd);
            let patience = libc::timeval { tv_sec: 1, tv_usec: 0 };
            let size = size_of::<libc::timeval>() as libc::socklen_t;
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const patience).cast(), size);
            libc::connect(fd, (&raw const address).cast(), length) == 0
                && libc::send(fd, hello.as_ptr().cast(), hello.len(), libc::MSG_NOSIGNAL) >= 0
                && libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) > 0
        }
    })
}

/// Takes the socket name of a job before its rank 0 does, and waits for victims.
fn squatter() -> ExitCode {
    let name = std::env::var("TEST_SOCKETS").expect("set by the test");
    let (address, length) = address(name.trim_start_matches('@'));
    // SAFETY: the address is as long as said.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0);
        let bound = libc::bind(fd, (&raw const address).cast(), length) == 0 && libc::listen(fd, 64) == 0;
        job::note(0, if bound { "listens" } else { "failed" });
        let mut packet = [0u8; 256];
        loop {
            let victim = libc::accept(fd, std::ptr::null_mut(), std::ptr::null_mut());
            if victim >= 0 && libc::recv(victim, packet.as_mut_ptr().cast(), packet.len(), 0) > 0 {
                job::note(0, "GOT a packet of a rank");
            }
        }
    }
}

fn nobody_joins() -> Result<(), String> {
    if !can_be_a_stranger() {
        return Ok(());
    }
    let name = format!("squat{}", std::process::id());
    let start = |job: Job, rank: &str| {
        let variables = [
            ("BOXWISE_RANK", rank),
            ("BOXWISE_SIZE", "3"),
            ("BOXWISE_JOB", name.as_str()),
            ("BOXWISE_BOOT_TIMEOUT_MS", "1500"),
        ];
        job.with(job::own_command(), &variables)
    };
    // How rank 0 of this job calls its socket, seen once and then taken.
    let before = job::sockets();
    let scout = start(Job::new("rank"), "0");
    scout.wait_for_note(0, "pid", LIMIT)?;
    let begun = std::time::Instant::now();
    let socket = loop {
        match job::sockets().into_iter().find(|socket| !before.contains(socket) && socket.contains(&name)) {
            Some(socket) => break socket,
            None if begun.elapsed() > LIMIT => return Err("rank 0 has no socket: this test tests nothing".into()),
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    drop(scout);

    let squatter = Job::new("squatter");
    let command = strange_command(&squatter);
    let squatter = squatter.with(command, &[("TEST_SOCKETS", socket.as_str())]);
    squatter.wait_for_note(0, "listens", LIMIT)?;
    let outcome = start(start(Job::new("rank"), "0"), "1").wait(LIMIT)?;
    let refused = |rank: usize| outcome.notes[rank].iter().any(|line| line.starts_with("refused "));
    if !refused(0) || !refused(1) {
        return Err(format!("{outcome:#?}"));
    }
    match squatter.notes_of(0).iter().any(|line| line.starts_with("GOT")) {
        true => Err(format!("a rank introduced itself to a stranger; {outcome:#?}")),
        false => Ok(()),
    }
}
