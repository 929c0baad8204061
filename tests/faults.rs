//! Ranks that die, leave or come late: everyone who waits for them is told in time, and nothing stays behind.

mod common;

use boxwise::plan::Options;
use boxwise::{Communicator, Error, Reshape, Result, SharedBuffer, Status};
use common::example::slabs;
use common::harness::{self, Test};
use common::job::{self, Job, Outcome};
use common::side::request;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How soon a lost rank must be noticed.
const SOON: Duration = Duration::from_secs(1);
const RANKS: usize = 3;
const LIMIT: Duration = Duration::from_secs(30);

/// What a rank does when another is lost, and the value of `BOXWISE_CMA`.
const PLACES: [(&str, &str); 6] = [
    ("make", "1"),
    ("malloc", "1"),
    ("barrier", "1"),
    ("exec_shared", "1"),
    ("exec_cross_memory", "1"),
    ("exec_rings", "0"),
];

fn main() -> ExitCode {
    match job::role().as_deref() {
        None => harness::run(tests()),
        Some("die") => die_or_survive(),
        Some("late") => late(),
        Some("wait") => wait(),
        Some(other) => panic!("{other} is not a role"),
    }
}

fn tests() -> Vec<Test<'static>> {
    let mut tests = Vec::new();
    for (number, how) in ["killed", "aborted", "exited"].into_iter().enumerate() {
        for victim in [0, 1, 2] {
            tests.push(Test::new(format!("world_{how}_rank_{victim}"), move || lost("world", "1", how, victim)));
        }
        for (index, (place, cma)) in PLACES.into_iter().enumerate() {
            // Rank 0 hands out shared memory, the others do not.
            let victims = if how == "killed" { vec![0, 1] } else { vec![(index + number) % RANKS] };
            for victim in victims {
                tests.push(Test::new(format!("{place}_{how}_rank_{victim}"), move || lost(place, cma, how, victim)));
            }
        }
    }
    for (place, cma) in PLACES {
        for victim in [0, 2] {
            let place = format!("busy_{place}");
            let name = format!("{place}_killed_rank_{victim}");
            tests.push(Test::new(name, move || (0..3).try_for_each(|_| lost(&place, cma, "killed", victim))));
        }
    }
    for (place, cma) in [("make", "1"), ("exec_shared", "1"), ("exec_cross_memory", "1"), ("exec_rings", "0")] {
        tests.push(Test::new(format!("timeout_in_{place}"), move || timeout(place, cma)));
    }
    tests.push(Test::new("timeout_in_world", || timeout("world", "1")));
    tests.push(Test::new("launcher_killed", launcher_killed));
    tests.push(Test::new("launcher_terminated", launcher_terminated));
    tests.push(Test::new("what_is_left_behind_is_found", what_is_left_is_found));
    tests
}

fn variable(name: &str) -> String {
    std::env::var(name).expect("set by the test that started this job")
}

/// Something that all ranks do together, again and again.
struct Act {
    comm: Communicator,
    place: String,
    options: Options,
    reshape: Reshape,
    memory: Option<SharedBuffer>,
    plain: Vec<u64>,
}

const SHAPE: [i64; 2] = [360, 840];

impl Act {
    /// Collective.
    fn new(comm: &Communicator, place: &str, options: Options) -> Act {
        let reshape = Act::make(comm, &options).expect("make while all are well");
        let bytes = SHAPE[0] as usize * SHAPE[1] as usize * 8;
        let memory = (place == "exec_shared").then(|| comm.allocate(2 * bytes).expect("memory while all are well"));
        let plain = vec![3; if memory.is_some() { 0 } else { 2 * bytes / 8 }];
        Act { comm: comm.clone(), place: place.to_owned(), options, reshape, memory, plain }
    }

    fn make(comm: &Communicator, options: &Options) -> Result<Reshape> {
        // Runs long enough for cross-memory attach.
        let (rank, ranks) = (comm.rank(), comm.size());
        let (input, output) =
            (&slabs(&[SHAPE[0], SHAPE[1] * 2], 0, ranks)[rank], &slabs(&[SHAPE[0], SHAPE[1] * 2], 1, ranks)[rank]);
        Reshape::make(comm, request(input, output, 8), options)
    }

    fn once(&mut self) -> Result<()> {
        match self.place.as_str() {
            "make" => Act::make(&self.comm, &self.options).map(drop),
            "malloc" => self.comm.allocate(100_000).map(drop),
            "barrier" => self.comm.barrier(),
            _ => {
                let base = self.memory.as_mut().map_or(self.plain.as_mut_ptr().cast(), SharedBuffer::as_mut_ptr);
                let output = base.wrapping_add(SHAPE[0] as usize * SHAPE[1] as usize * 8);
                // SAFETY: each half of the memory holds more than a rank's share of the shape.
                unsafe { self.reshape.exec(output, base, std::ptr::null_mut(), None) }
            }
        }
    }
}

/// A rank of `lost`: the victim ends, the others say what they are told and when.
fn die_or_survive() -> ExitCode {
    let (place, how) = (variable("TEST_PLACE"), variable("TEST_HOW"));
    let rank: usize = variable("BOXWISE_RANK").parse().expect("a rank");
    let is_victim = rank == variable("TEST_VICTIM").parse::<usize>().expect("a rank");
    let die = move |pause: u64| {
        std::thread::sleep(Duration::from_millis(pause));
        job::note(rank, &format!("died {}", job::now_ns()));
        match how.as_str() {
            // SAFETY: no memory is involved.
            "killed" => drop(unsafe { libc::kill(libc::getpid(), libc::SIGKILL) }),
            "aborted" => std::process::abort(),
            _ => std::process::exit(0),
        }
    };
    if place == "world" {
        if is_victim {
            die(150);
        }
        survived(rank, Communicator::world().expect_err("a rank is missing"));
        return ExitCode::SUCCESS;
    }
    let comm = Communicator::world().expect("a world while all are well");
    let (kind, busy) = place.strip_prefix("busy_").map_or((place.as_str(), false), |kind| (kind, true));
    let mut act = Act::new(&comm, kind, Options::default());
    act.once().expect("the first time, while all are well");
    comm.barrier().expect("while all are well");
    if is_victim && busy {
        // In the middle of things, wherever that is.
        std::thread::spawn(move || die(40 + job::now_ns() % 60));
    } else if is_victim {
        die(150);
    }
    let begun = Instant::now();
    let error = loop {
        match act.once() {
            Err(error) => break error,
            Ok(()) => assert!(busy && begun.elapsed() < LIMIT, "nobody was lost"),
        }
    };
    survived(rank, error);

    // From now on every call says so, at once.
    let begun = Instant::now();
    let calls: [(&str, Result<()>); 4] = [
        ("barrier", comm.barrier()),
        ("malloc", comm.malloc(Ok(100)).map(drop)),
        ("make", Act::make(&comm, &Options::default()).map(drop)),
        ("exec", {
            act.place = "exec".into();
            act.once()
        }),
    ];
    for (call, result) in calls {
        let error = result.err();
        let right = |e: &Error| e.status == Status::PeerLost && e.detail.contains("out of use");
        job::note(rank, &format!("poisoned {} {call} {error:?}", error.as_ref().is_some_and(right)));
    }
    job::note(rank, &format!("poisoned {} in {:?}", begun.elapsed() < Duration::from_millis(300), begun.elapsed()));
    ExitCode::SUCCESS
}

fn survived(rank: usize, error: Error) {
    job::note(rank, &format!("survived {} {:?} {}", job::now_ns(), error.status, error.detail));
}

fn lost(place: &str, cma: &str, how: &str, victim: usize) -> std::result::Result<(), String> {
    let before = job::traces();
    let number = victim.to_string();
    let variables = [("TEST_PLACE", place), ("TEST_HOW", how), ("TEST_VICTIM", number.as_str()), ("BOXWISE_CMA", cma)];
    let outcome = Job::launched(RANKS, "die", &variables).wait(LIMIT)?;
    let wrong = |what: &str| Err(format!("{what}\n{outcome:#?}"));
    let time = |rank: usize, word: &str| {
        let line = outcome.notes[rank].iter().find(|line| line.starts_with(word))?;
        line.split(' ').nth(1)?.parse::<u64>().ok()
    };
    let Some(died) = time(victim, "died") else { return wrong("the victim did not die") };
    for rank in (0..RANKS).filter(|&rank| rank != victim) {
        let Some(told) = time(rank, "survived") else { return wrong("a survivor was not told") };
        if Duration::from_nanos(told.saturating_sub(died)) > SOON {
            return wrong(&format!("rank {rank} was told after {:.3} s", (told - died) as f64 * 1e-9));
        }
        let notes = outcome.notes[rank].join("\n");
        if !notes.contains(" PeerLost ") || !notes.contains(&format!("rank {victim}")) {
            return wrong(&format!("rank {rank} was not told of rank {victim}"));
        }
        if place != "world" && (notes.matches("poisoned true").count() != 5 || notes.contains("poisoned false")) {
            return wrong(&format!("rank {rank} can still use its communicator"));
        }
    }
    let code = [("killed", 128 + libc::SIGKILL), ("aborted", 128 + libc::SIGABRT), ("exited", 0)];
    let code = code.iter().find(|(name, _)| *name == how).map(|(_, code)| *code);
    if outcome.statuses[0].code() != code {
        return wrong("the launcher returns another code");
    }
    nothing_left(&outcome)?;
    job::no_traces_since(&before)
}

fn nothing_left(outcome: &Outcome) -> std::result::Result<(), String> {
    match outcome.left[..] {
        [] => Ok(()),
        _ => Err(format!("processes outlive their job: {outcome:#?}")),
    }
}

/// A rank of `timeout`: rank 1 comes when the others have given up.
fn late() -> ExitCode {
    let place = variable("TEST_PLACE");
    let rank: usize = variable("BOXWISE_RANK").parse().expect("a rank");
    let pause = |comes_late: bool| std::thread::sleep(Duration::from_millis(if comes_late { 1200 } else { 0 }));
    let tell = |begun: Instant, result: Result<()>| {
        let (status, detail) = result.map_or_else(|e| (e.status, e.detail), |()| (Status::Success, String::new()));
        job::note(rank, &format!("ended {} {status:?} {detail}", begun.elapsed().as_millis()));
        ExitCode::SUCCESS
    };
    if place == "world" {
        pause(rank == 1);
        return tell(Instant::now(), Communicator::world().map(drop));
    }
    let comm = Communicator::world().expect("a world");
    let options = Options { timeout_ms: 300, ..Options::default() };
    let mut act = Act::new(&comm, &place, Options { timeout_ms: 20_000, ..options });
    if place != "make" {
        comm.barrier().expect("barrier");
        act.reshape = Act::make(&comm, &options).expect("make while all are in time");
    }
    act.options = options;
    comm.barrier().expect("barrier");
    pause(rank == 1);
    tell(Instant::now(), act.once())
}

fn timeout(place: &str, cma: &str) -> std::result::Result<(), String> {
    let before = job::traces();
    let mut variables = vec![("TEST_PLACE", place), ("BOXWISE_CMA", cma)];
    if place == "world" {
        variables.push(("BOXWISE_BOOT_TIMEOUT_MS", "300"));
    }
    let outcome = Job::launched(RANKS, "late", &variables).wait(LIMIT)?;
    let wrong = |what: String| Err(format!("{what}\n{outcome:#?}"));
    let mut timed_out = 0;
    for rank in 0..RANKS {
        let Some(line) = outcome.notes[rank].iter().find(|line| line.starts_with("ended")) else {
            return wrong(format!("rank {rank} did not end"));
        };
        let words: Vec<&str> = line.split(' ').collect();
        let ms: u64 = words[1].parse().expect("milliseconds");
        timed_out += usize::from(words[2] == "Timeout");
        // Whoever gives up first tells the others.
        let punctual = (290..1000).contains(&ms) || rank == 1 && ms < 1000;
        if !["Timeout", "PeerLost"].contains(&words[2]) || !punctual {
            return wrong(format!("rank {rank}: {line}"));
        }
    }
    if timed_out == 0 || place != "world" && outcome.notes[1].iter().any(|line| line.contains(" Timeout ")) {
        return wrong("the ranks in time see the timeout, the late one that they gave up".into());
    }
    nothing_left(&outcome)?;
    job::no_traces_since(&before)
}

/// A rank that waits for ever, in a world that works.
fn wait() -> ExitCode {
    let comm = Communicator::world().expect("a world");
    let memory = comm.allocate(1 << 20).expect("memory");
    job::note(comm.rank(), "ready");
    if comm.rank() == 0 {
        std::thread::sleep(LIMIT);
    }
    let _ = comm.barrier();
    drop(memory);
    ExitCode::SUCCESS
}

fn launcher_signalled(signal: i32) -> std::result::Result<Outcome, String> {
    let before = job::traces();
    let job = Job::launched(RANKS, "wait", &[]);
    for rank in 0..RANKS {
        job.wait_for_note(rank, "ready", LIMIT)?;
    }
    // SAFETY: no memory is involved; the child has not been waited for.
    unsafe { libc::kill(job.children[0].id() as i32, signal) };
    let outcome = job.wait(Duration::from_secs(10))?;
    nothing_left(&outcome)?;
    job::no_traces_since(&before)?;
    Ok(outcome)
}

/// Even a launcher that can tell nobody takes its ranks along.
fn launcher_killed() -> std::result::Result<(), String> {
    launcher_signalled(libc::SIGKILL).map(drop)
}

/// A signal reaches the ranks, and what became of them is the launcher's exit code.
fn launcher_terminated() -> std::result::Result<(), String> {
    let outcome = launcher_signalled(libc::SIGTERM)?;
    match outcome.statuses[0].code() == Some(128 + libc::SIGTERM) {
        true => Ok(()),
        false => Err(format!("{outcome:#?}")),
    }
}

/// A search that finds nothing would find nothing wrong; what other jobs hold is none of ours.
fn what_is_left_is_found() -> std::result::Result<(), String> {
    use std::os::fd::AsRawFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let before = job::traces();
    let name = format!("boxwise.test.{}", std::process::id());
    let path = std::path::Path::new("/dev/shm").join(&name);
    std::fs::write(&path, "left").map_err(|error| error.to_string())?;
    let file = job::no_traces_since(&before);
    std::fs::remove_file(&path).map_err(|error| error.to_string())?;

    let address = SocketAddr::from_abstract_name(&name).map_err(|error| error.to_string())?;
    let socket = UnixListener::bind_addr(&address).map_err(|error| error.to_string())?;
    let own = job::no_traces_since(&before);
    // SAFETY: the descriptor is ours; children may have it from now on.
    unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFD, 0) };
    let mut other = std::process::Command::new("sleep").arg("60").spawn().map_err(|error| error.to_string())?;
    drop(socket);
    let foreign = job::no_traces_since(&before);
    other.kill().and_then(|()| other.wait()).map_err(|error| error.to_string())?;
    let told = |result: &std::result::Result<(), String>| result.as_ref().is_err_and(|text| text.contains(&name));
    match told(&file) && told(&own) && foreign.is_ok() {
        true => Ok(()),
        false => Err(format!("file: {file:?}; own socket: {own:?}; of another program: {foreign:?}")),
    }
}
