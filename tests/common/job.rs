//! Jobs of processes: this test program started again as ranks, what they say, and what they leave behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Tells a process of a job which part of the test program it is.
pub const ROLE: &str = "TEST_ROLE";
/// Where the ranks of a job leave notes.
const NOTES: &str = "TEST_NOTES";
/// Marks every process of a job, so that none is overlooked.
const MARK: &str = "TEST_MARK";

/// `boxwise-run`: beside this program, where the two were moved together.
fn launcher() -> PathBuf {
    let beside = own_program().with_file_name("boxwise-run");
    if beside.exists() { beside } else { PathBuf::from(env!("CARGO_BIN_EXE_boxwise-run")) }
}

/// The role of this process, if it is part of a job.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Monotonic time in nanoseconds, the same clock in every process.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is there to be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Leaves a line for the test that started this job.
pub fn note(rank: usize, text: &str) {
    use std::io::Write;
    let directory = std::env::var(NOTES).expect("a job has a place for notes");
    let path = Path::new(&directory).join(format!("{rank}"));
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes())).expect("notes can be left");
}

/// A running job, ended with everything it started when dropped.
pub struct Job {
    pub children: Vec<Child>,
    mark: String,
    notes: PathBuf,
}

/// What a job left when it was over.
#[derive(Debug)]
pub struct Outcome {
    /// Of every process that the test itself started.
    pub statuses: Vec<ExitStatus>,
    /// What they printed, one text each.
    pub output: Vec<String>,
    /// Lines left by each rank.
    pub notes: Vec<Vec<String>>,
    /// Processes of the job that outlived it.
    pub left: Vec<i32>,
}

impl Job {
    /// This program as `ranks` ranks under `boxwise-run`.
    pub fn launched(ranks: usize, role: &str, variables: &[(&str, &str)]) -> Job {
        let mut command = Command::new(launcher());
        command.arg("-n").arg(ranks.to_string()).arg(own_program());
        Job::new(role).with(command, variables)
    }

    /// A job without processes yet.
    pub fn new(role: &str) -> Job {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{role}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let notes = std::env::temp_dir().join(format!("boxwise-test-{mark}"));
        std::fs::create_dir_all(&notes).expect("a directory for notes");
        Job { children: Vec::new(), mark, notes }
    }

    /// Starts one more process of the job, by default this program.
    pub fn with(mut self, mut command: Command, variables: &[(&str, &str)]) -> Job {
        let role = self.mark.split('-').next().expect("the mark starts with the role").to_owned();
        command.env(ROLE, role).env(MARK, &self.mark).env(NOTES, &self.notes).envs(variables.iter().copied());
        let log = |name: &str| {
            let path = self.notes.join(format!("{name}-{}", self.children.len()));
            Stdio::from(std::fs::File::create(path).expect("a file for the output"))
        };
        let child = command.stdin(Stdio::null()).stdout(log("out")).stderr(log("err")).spawn();
        self.children.push(child.expect("the program starts"));
        self
    }

    /// Waits until all processes the test started are over; after `limit` kills the whole job.
    pub fn wait(mut self, limit: Duration) -> Result<Outcome, String> {
        let deadline = Instant::now() + limit;
        let mut statuses = vec![None; self.children.len()];
        while statuses.iter().any(Option::is_none) {
            for (status, child) in statuses.iter_mut().zip(&mut self.children) {
                *status = status.or(child.try_wait().expect("own children can be waited for"));
            }
            if Instant::now() > deadline {
                let outcome = self.outcome(Vec::new());
                return Err(format!("not over after {limit:?}: {outcome:#?}"));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        // A process that is being reaped needs a moment to go.
        let grace = Instant::now() + Duration::from_secs(1);
        while !self.processes().is_empty() && Instant::now() < grace {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(self.outcome(statuses.into_iter().flatten().collect()))
    }

    /// The lines that a rank has left so far.
    pub fn notes_of(&self, rank: usize) -> Vec<String> {
        let text = std::fs::read_to_string(self.notes.join(rank.to_string())).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until a rank has left a line that starts with `start`; the rest of that line.
    pub fn wait_for_note(&self, rank: usize, start: &str, limit: Duration) -> Result<String, String> {
        let deadline = Instant::now() + limit;
        loop {
            let notes = self.notes_of(rank);
            if let Some(rest) = notes.iter().find_map(|line| line.strip_prefix(start)) {
                return Ok(rest.trim().to_owned());
            }
            if Instant::now() > deadline {
                return Err(format!("rank {rank} has not noted {start:?}: {:#?}", self.outcome(Vec::new())));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A directory for whatever the job needs, gone with it.
    pub fn directory(&self) -> &Path {
        &self.notes
    }

    fn outcome(&self, statuses: Vec<ExitStatus>) -> Outcome {
        let read = |name: String| std::fs::read_to_string(self.notes.join(name)).unwrap_or_default();
        let output = (0..self.children.len()).map(|i| read(format!("out-{i}")) + &read(format!("err-{i}"))).collect();
        let notes = (0..64).map(|rank| self.notes_of(rank)).collect();
        Outcome { statuses, output, notes, left: self.processes() }
    }

    /// Processes of this job that are still alive.
    pub fn processes(&self) -> Vec<i32> {
        let marked = format!("{MARK}={}", self.mark).into_bytes();
        let of_this_job = |pid: &i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == marked)
        };
        all_processes().filter(of_this_job).collect()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for pid in self.processes() {
            // SAFETY: no memory is involved; the process carries this job's mark.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        self.children.iter_mut().for_each(|child| drop(child.wait()));
        let _ = std::fs::remove_dir_all(&self.notes);
    }
}

/// The path of this test program.
pub fn own_program() -> PathBuf {
    std::env::current_exe().expect("this program has a path")
}

/// This program as a command without the variables of any launcher.
pub fn own_command() -> Command {
    let mut command = Command::new(own_program());
    for (name, _) in std::env::vars() {
        if ["BOXWISE_", "OMPI_", "PMIX_", "PMI_", "MPI_", "SLURM_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// Names in shared memory and abstract sockets of this library on the machine.
pub fn traces() -> BTreeSet<String> {
    let shared = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let shared = shared.map(|entry| format!("/dev/shm/{}", entry.file_name().to_string_lossy()));
    shared.chain(sockets()).collect()
}

/// Abstract sockets whose name has `boxwise` in it.
pub fn sockets() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let names = table.lines().filter_map(|line| line.split_whitespace().nth(7)).filter(|name| name.contains("boxwise"));
    names.map(str::to_owned).collect()
}

/// Nothing may be left that was not there before. What a process of some other job holds is that job's: this one
/// is over, and `Outcome::left` tells whether all its processes are.
pub fn no_traces_since(before: &BTreeSet<String>) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        let left: Vec<String> = traces().difference(before).filter(|name| !is_held_elsewhere(name)).cloned().collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("left behind: {left:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process that this test did not start has the socket or the shared memory of this name open.
fn is_held_elsewhere(name: &str) -> bool {
    holders(name).into_iter().any(|pid| !is_of_this_test(pid))
}

/// The processes that have the socket or the shared memory of this name open.
pub fn holders(name: &str) -> Vec<i32> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let of_name = |line: &&str| line.split_whitespace().nth(7) == Some(name);
    let inode = |line: &str| line.split_whitespace().nth(6).map(|inode| format!("socket:[{inode}]"));
    let mut links: Vec<String> = table.lines().filter(of_name).filter_map(inode).collect();
    links.push(name.to_owned());
    let is_link = |fd: std::fs::DirEntry| {
        std::fs::read_link(fd.path()).is_ok_and(|to| links.iter().any(|link| to.as_os_str() == link.as_str()))
    };
    let holds = |pid: &i32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mut fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.any(is_link) || maps.lines().any(|line| line.ends_with(name))
    };
    all_processes().filter(holds).collect()
}

/// Whether this test started the process, directly or not: by the mark, or, where there is none, by the program.
fn is_of_this_test(pid: i32) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let start = format!("{MARK}=").into_bytes();
    match environment.split(|&byte| byte == 0).find_map(|variable| variable.strip_prefix(&start[..])) {
        // Job names end in the number of the process that started them, and a count.
        Some(mark) => String::from_utf8_lossy(mark).split('-').nth(1) == Some(&std::process::id().to_string()),
        None => std::fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|exe| exe == own_program() || exe == Path::new(env!("CARGO_BIN_EXE_boxwise-run"))),
    }
}

fn all_processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").expect("processes are listed").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
