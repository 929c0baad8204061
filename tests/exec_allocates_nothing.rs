//! An execution allocates nothing and leaves nothing: counted in the allocator, in memory, descriptors, mappings
//! and threads of the whole process, which is why these tests run one after the other.

mod common;

use boxwise::plan::{ExitSync, Options};
use boxwise::{Communicator, Reshape, SharedBuffer, Stream};
use common::boots::group_on_nodes;
use common::example::slabs;
use common::harness::{self, Test};
use common::job::{self, Job};
use common::ranks::{in_threads, together};
use common::side::{Side, request};
use common::usage::{self, CountingAllocator};
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(name).expect("set by the test that started this job");
    match job::role().as_deref() {
        None => harness::run(tests()),
        Some("count") => {
            let comm = Communicator::world().expect("a world");
            kinds()
                .iter()
                .for_each(|kind| job::note(comm.rank(), &format!("{} {}", count_alone(&comm, kind), kind.name)));
            ExitCode::SUCCESS
        }
        Some("repeat") => repeat(&variable("TEST_KIND")),
        Some(other) => panic!("{other} is not a role"),
    }
}

fn tests() -> Vec<Test<'static>> {
    let mut tests = Vec::new();
    for kind in kinds() {
        tests.push(Test::new(format!("threads_{}", kind.name), move || count_together(&kind)));
    }
    for kind in kinds().into_iter().filter(|kind| !kind.shared) {
        tests.push(Test::new(format!("nodes_{}", kind.name), move || count_across_nodes(&kind)));
    }
    for (way, cma) in [("cross_memory", "1"), ("rings", "0")] {
        tests.push(Test::new(format!("processes_{way}"), move || count_in_processes(cma)));
    }
    tests.push(Test::new("case_20_rows_to_columns", case_20));
    tests.push(Test::new("case_17_make_exec_destroy_threads", || case_17(10_000)));
    for (name, kind, cma, methods) in [
        ("case_17_make_exec_destroy_processes", "make", "1", 0),
        ("executions_100000_shared", "shared", "1", 1),
        ("executions_100000_plain_cross_memory", "plain", "1", 4),
        ("executions_100000_plain_rings", "plain", "0", 2),
        ("executions_100000_in_place_on_a_stream", "in_place_on_a_stream", "0", 2),
    ] {
        tests.push(Test::new(name, move || repeat_in_processes(kind, cma, methods)));
    }
    tests.push(Test::new("the_counters_count", the_counters_count));
    tests
}

/// A way to execute.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    shape: [i64; 3],
    element_size: usize,
    shared: bool,
    strided: bool,
    on_stream: bool,
    options: Options,
}

fn kinds() -> Vec<Kind> {
    let shape = [12, 10, 6];
    let (shared, strided, on_stream) = (false, false, false);
    let plain = Kind { name: "plain", shape, element_size: 8, shared, strided, on_stream, options: Options::default() };
    let in_place = Options { in_place: true, ..plain.options };
    let large = [64, 96, 64];
    vec![
        plain,
        Kind { name: "shared", shared: true, ..plain },
        Kind { name: "strided_plain", strided: true, ..plain },
        Kind { name: "strided_shared", strided: true, shared: true, element_size: 3, ..plain },
        Kind { name: "in_place", options: in_place, ..plain },
        Kind { name: "in_place_shared", shared: true, options: in_place, ..plain },
        Kind { name: "stream", on_stream: true, ..plain },
        Kind { name: "stream_shared_in_place", on_stream: true, shared: true, options: in_place, ..plain },
        Kind { name: "large_plain", shape: large, element_size: 16, ..plain },
        Kind { name: "large_strided_shared", shape: large, strided: true, shared: true, ..plain },
        Kind { name: "copy_threads", shape: large, options: Options { threads: 3, ..plain.options }, ..plain },
        Kind { name: "exit_everyone", options: Options { exit_sync: ExitSync::Everyone, ..plain.options }, ..plain },
        Kind { name: "timeout", options: Options { timeout_ms: 90_000, ..plain.options }, ..plain },
    ]
}

/// A made reshape with its buffers.
struct Rig {
    reshape: Reshape,
    shared: Option<SharedBuffer>,
    plain: Vec<u64>,
    bytes: usize,
    stream: Option<Stream>,
}

impl Rig {
    /// Collective.
    fn new(comm: &Communicator, kind: &Kind) -> Rig {
        let (rank, ranks) = (comm.rank(), comm.size());
        let input = slabs(&kind.shape, 0, ranks).swap_remove(rank);
        let mut output = slabs(&kind.shape, 1, ranks).swap_remove(rank);
        if kind.strided {
            output = Side::ordered(&output.lower, &output.upper, &[2, 0, 1]);
        }
        let made = Reshape::make(comm, request(&input, &output, kind.element_size), &kind.options);
        let bytes = (input.volume().max(output.volume()) as usize * kind.element_size).next_multiple_of(64);
        let shared = kind.shared.then(|| comm.allocate(3 * bytes).expect("shared memory"));
        let plain = vec![7; if kind.shared { 0 } else { 3 * bytes / 8 }];
        let stream = kind.on_stream.then(|| Stream::new().expect("a stream"));
        Rig { reshape: made.expect("make"), shared, plain, bytes, stream }
    }

    /// Collective: executes so often, and waits for the stream.
    fn exec(&mut self, times: usize) {
        let base = self.shared.as_mut().map_or(self.plain.as_mut_ptr().cast(), SharedBuffer::as_mut_ptr);
        let (input, output) = (base.cast_const(), base.wrapping_add(self.bytes));
        let in_place = self.reshape.workspace_bytes() > 0;
        assert!(self.reshape.workspace_bytes() <= self.bytes);
        let output = if in_place { base } else { output };
        for _ in 0..times {
            // SAFETY: input, output and workspace are each a third of the memory, large enough for both boxes.
            let result =
                unsafe { self.reshape.exec(output, input, base.wrapping_add(2 * self.bytes), self.stream.as_ref()) };
            result.expect("exec");
        }
        self.stream.as_ref().map_or(Ok(()), Stream::synchronize).expect("the stream");
    }
}

/// How often all ranks of a world of threads allocate in 40 executions, the first ones among them.
fn count_together(kind: &Kind) -> Result<(), String> {
    for ranks in [1, 2, 5] {
        let barrier = Barrier::new(ranks);
        let counts = in_threads(ranks, |comm| {
            let mut rig = Rig::new(&comm, kind);
            let ended = Window::open(&barrier).of(|| rig.exec(40));
            barrier.wait();
            ended
        });
        if counts.iter().any(|count| *count != (0, 0)) {
            return Err(format!("{ranks} ranks: allocations and growth in bytes of {}: {counts:?}", kind.name));
        }
    }
    Ok(())
}

/// As [`count_together`], for ranks on pretended nodes. The messages' own memory may grow.
fn count_across_nodes(kind: &Kind) -> Result<(), String> {
    for nodes in [&[0, 1][..], &[0, 1, 1, 0, 2]] {
        let barrier = Barrier::new(nodes.len());
        let member = |boot| {
            || {
                let comm = Communicator::from_boot(Box::new(boot)).expect("a communicator");
                let mut rig = Rig::new(&comm, kind);
                let (allocations, _) = Window::open(&barrier).of(|| rig.exec(40));
                barrier.wait();
                allocations
            }
        };
        let counts = together(group_on_nodes(nodes).into_iter().map(member).collect());
        if counts.iter().any(|count| *count != 0) {
            return Err(format!("nodes {nodes:?}: allocations of {}: {counts:?}", kind.name));
        }
    }
    Ok(())
}

/// As [`count_together`], for a rank that is a process of its own.
fn count_alone(comm: &Communicator, kind: &Kind) -> u64 {
    let mut rig = Rig::new(comm, kind);
    comm.barrier().expect("barrier");
    let (allocations, growth) = Window::open(&Barrier::new(1)).of(|| rig.exec(40));
    comm.barrier().expect("barrier");
    allocations + growth
}

/// What the process uses from the moment when all its ranks are here until all have done their part.
struct Window<'a> {
    barrier: &'a Barrier,
    allocations: u64,
    bytes: u64,
}

impl<'a> Window<'a> {
    fn open(barrier: &'a Barrier) -> Window<'a> {
        // One rank looks while the others sleep, then all remember the same.
        if barrier.wait().is_leader() {
            usage::settle();
        }
        barrier.wait();
        Window { barrier, allocations: usage::allocations(), bytes: usage::status_bytes("VmSize") }
    }

    /// Calls of the allocator, and bytes of address space more than before.
    fn of(self, part: impl FnOnce()) -> (u64, u64) {
        self.barrier.wait();
        part();
        self.barrier.wait();
        let grown = usage::status_bytes("VmSize").saturating_sub(self.bytes);
        (usage::allocations() - self.allocations, grown)
    }
}

fn count_in_processes(cma: &str) -> Result<(), String> {
    let outcome = Job::launched(3, "count", &[("BOXWISE_CMA", cma)]).wait(Duration::from_secs(60))?;
    let notes: Vec<&String> = outcome.notes.iter().flatten().collect();
    let expected = 3 * kinds().len();
    match notes.len() == expected && notes.iter().all(|note| note.starts_with("0 ")) {
        true => Ok(()),
        false => Err(format!("{} of {expected} counts: {notes:?}\n{:?}", notes.len(), outcome.output)),
    }
}

/// 200000 x 600 doubles in the original report; a quarter of that here, for the sake of small machines.
fn case_20() -> Result<(), String> {
    let shape = [50_000i64, 600];
    let barrier = Barrier::new(2);
    let results = in_threads(2, |comm| {
        let (rows, columns) = (slabs(&shape, 0, 2), slabs(&shape, 1, 2));
        let (rows, columns) = (&rows[comm.rank()], &columns[comm.rank()]);
        let reshape = Reshape::make(&comm, request(rows, columns, 8), &Options::default()).expect("make");
        let first = rows.lower[0] * shape[1];
        let held: Vec<f64> = (0..rows.volume()).map(|index| (first + index) as f64).collect();
        let mut got = vec![0.0f64; columns.volume() as usize];
        got.fill(-1.0);
        let mut exec = || {
            // SAFETY: both arrays are as large as their boxes.
            unsafe { reshape.exec(got.as_mut_ptr().cast(), held.as_ptr().cast(), std::ptr::null_mut(), None) }
                .expect("exec")
        };
        // Memory that is there only while an execution runs shows in the peak.
        exec();
        let window = Window::open(&barrier);
        usage::reset_peak();
        let resident = usage::status_bytes("VmRSS");
        let after = window.of(exec);
        let peak = usage::status_bytes("VmHWM").saturating_sub(resident);
        barrier.wait();
        let after = (after.0, after.1, peak / (1 << 20));
        let width = columns.extent(1);
        let right = |(index, value): (usize, &f64)| {
            let (row, column) = (index as i64 / width, columns.lower[1] + index as i64 % width);
            *value == (row * shape[1] + column) as f64
        };
        (after, got.iter().enumerate().all(right))
    });
    match results.iter().all(|result| *result == ((0, 0, 0), true)) {
        true => Ok(()),
        false => Err(format!("(allocations, growth in bytes, peak in MiB), all elements right: {results:?}")),
    }
}

/// What the process holds; the parts that must not grow.
#[derive(Debug, PartialEq, Eq)]
struct Holdings {
    bytes: u64,
    descriptors: usize,
    mappings: usize,
    threads: u64,
}

impl Holdings {
    /// Memory may move by half a mebibyte: the kernel counts it roughly.
    const SLACK_BYTES: u64 = 512 << 10;

    fn now() -> Holdings {
        let (descriptors, mappings, threads) = (usage::descriptors(), usage::mappings(), usage::threads());
        Holdings { bytes: usage::status_bytes("VmRSS"), descriptors, mappings, threads }
    }

    fn compare(&self, later: &Holdings) -> Result<(), String> {
        let grown = later.bytes > self.bytes + Holdings::SLACK_BYTES
            || later.descriptors > self.descriptors
            || later.mappings > self.mappings + 4
            || later.threads > self.threads;
        if grown { Err(format!("from {self:?} to {later:?}")) } else { Ok(()) }
    }
}

/// Collective: makes, executes and drops a reshape so often.
fn make_and_drop(comm: &Communicator, times: usize) {
    let kind = kinds()[0];
    let (input, output) = (slabs(&kind.shape, 0, comm.size()), slabs(&kind.shape, 1, comm.size()));
    let request = request(&input[comm.rank()], &output[comm.rank()], 8);
    let (held, mut got) = (vec![1u64; 720], vec![0u64; 720]);
    for _ in 0..times {
        let reshape = Reshape::make(comm, request.clone(), &kind.options).expect("make");
        // SAFETY: both arrays are as large as the whole shape.
        unsafe { reshape.exec(got.as_mut_ptr().cast(), held.as_ptr().cast(), std::ptr::null_mut(), None) }
            .expect("exec");
    }
}

fn case_17(times: usize) -> Result<(), String> {
    let barrier = Barrier::new(2);
    // One rank looks, while the other waits: looking takes a descriptor itself.
    let look = |comm: &Communicator| {
        barrier.wait();
        let seen = (comm.rank() == 0).then(Holdings::now);
        barrier.wait();
        seen
    };
    let results = in_threads(2, |comm| {
        make_and_drop(&comm, times / 10);
        let before = look(&comm);
        make_and_drop(&comm, times);
        before.zip(look(&comm))
    });
    results.iter().flatten().try_for_each(|(before, after)| before.compare(after))
}

/// What a rank of `repeat_in_processes` does.
fn repeat(kind: &str) -> ExitCode {
    let comm = Communicator::world().expect("a world");
    let chosen = kinds().into_iter().find(|candidate| candidate.name == kind);
    let in_place = Options { in_place: true, ..Options::default() };
    let chosen = match kind {
        "in_place_on_a_stream" => Kind { options: in_place, on_stream: true, ..kinds()[0] },
        _ => chosen.unwrap_or(kinds()[0]),
    };
    // Small, but with runs that are long enough for cross-memory attach.
    let mut rig = Rig::new(&comm, &Kind { shape: [4, 6, 256], ..chosen });
    let mut run = |times: usize| match kind {
        "make" => make_and_drop(&comm, times / 10),
        _ => (0..times / 1000).for_each(|_| rig.exec(1000)),
    };
    run(5_000);
    usage::settle();
    comm.barrier().expect("barrier");
    let before = Holdings::now();
    run(100_000);
    comm.barrier().expect("barrier");
    let verdict = before.compare(&Holdings::now());
    job::note(comm.rank(), &format!("{verdict:?} by {}", rig.reshape.methods()));
    ExitCode::SUCCESS
}

fn repeat_in_processes(kind: &str, cma: &str, methods: u32) -> Result<(), String> {
    let variables = [("BOXWISE_CMA", cma), ("TEST_KIND", kind)];
    let outcome = Job::launched(2, "repeat", &variables).wait(Duration::from_secs(120))?;
    let notes: Vec<&String> = outcome.notes.iter().flatten().collect();
    let right = format!("Ok(()) by {methods}");
    match notes == [&right, &right] {
        true => Ok(()),
        false => Err(format!("{notes:?}\n{:?}", outcome.output)),
    }
}

/// A counter that cannot count would let everything pass.
fn the_counters_count() -> Result<(), String> {
    let before = Holdings::now();
    let (mut kept, mut file) = (Vec::new(), None);
    let seen = Window::open(&Barrier::new(1)).of(|| {
        kept = (0..100).map(|index| vec![index; 400_000]).collect();
        file = std::fs::File::open("/proc/self/status").ok();
    });
    let after = Holdings::now();
    let told = before.compare(&after);
    drop((kept, file));
    match seen.0 >= 101 && seen.1 > 1 << 20 && told.is_err() {
        true => Ok(()),
        false => Err(format!("{seen:?}, from {before:?} to {after:?}: {told:?}")),
    }
}
