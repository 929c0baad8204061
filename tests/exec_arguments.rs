//! A faulty argument of exec on one rank: every rank gets a status, nobody waits, nothing is written where it must
//! not be, and the handle works afterwards. Ranks as threads, and as processes with every way to move data.

mod common;

use boxwise::plan::Options;
use boxwise::{Communicator, Reshape, SharedBuffer, Status, Stream};
use common::example::slabs;
use common::harness::{self, Test};
use common::job::{self, Job};
use common::ranks::in_threads;
use common::side::{Side, request};
use std::process::ExitCode;
use std::time::Duration;

/// What can be wrong with the arguments, whether in place, and what the detail must name.
const FAULTS: [(&str, bool, &str); 6] = [
    ("no_input", false, "data_in"),
    ("no_output", false, "data_out"),
    ("overlap", false, "BOXWISE_OPTION_IN_PLACE"),
    ("no_workspace", true, "workspace"),
    ("workspace_in_input", true, "workspace"),
    ("workspace_in_output", true, "workspace"),
];
const SHAPE: [i64; 2] = [30, 2100];

fn main() -> ExitCode {
    match job::role() {
        None => harness::run(tests()),
        Some(_) => {
            let comm = Communicator::world().expect("a world");
            let rank = comm.rank();
            let shared = std::env::var("TEST_KIND").expect("set by the test") == "shared";
            job::note(rank, &format!("{:?}", all_faults(comm, shared)));
            ExitCode::SUCCESS
        }
    }
}

fn tests() -> Vec<Test<'static>> {
    let mut tests = Vec::new();
    for ranks in [1, 2, 3, 5] {
        for shared in [false, true] {
            let name = format!("threads_{ranks}_ranks_{}", if shared { "shared" } else { "plain" });
            tests.push(Test::new(name, move || {
                in_threads(ranks, |comm| all_faults(comm, shared)).into_iter().collect()
            }));
        }
    }
    for (way, kind, cma) in [("shared", "shared", "1"), ("cross_memory", "plain", "1"), ("rings", "plain", "0")] {
        tests.push(Test::new(format!("processes_{way}"), move || {
            let variables = [("TEST_KIND", kind), ("BOXWISE_CMA", cma)];
            let outcome = Job::launched(3, "exec", &variables).wait(Duration::from_secs(30))?;
            let well = (0..3).all(|rank| outcome.notes[rank] == ["Ok(())"]);
            if well { Ok(()) } else { Err(format!("{outcome:#?}")) }
        }));
    }
    tests
}

/// Collective: every fault on every rank, with and without a stream.
fn all_faults(comm: Communicator, shared: bool) -> Result<(), String> {
    let streams = [None, Some(Stream::new().expect("a stream"))];
    for (name, in_place, named) in FAULTS {
        let mut desk = Desk::new(&comm, in_place, shared);
        for guilty in 0..comm.size() {
            for stream in &streams {
                let what = format!("rank {}: {name} on rank {guilty}", comm.rank());
                desk.well(stream.as_ref()).map_err(|text| format!("before {what}: {text}"))?;
                desk.faulty(name, named, guilty, stream.as_ref()).map_err(|text| format!("{what}: {text}"))?;
                desk.well(stream.as_ref()).map_err(|text| format!("after {what}: {text}"))?;
            }
        }
    }
    faults_in_a_row(&comm, shared).map_err(|text| format!("rank {}: {text}", comm.rank()))
}

/// Collective: a rank that fails several times in a row does not wait for the others, which come later to each
/// of its failures and must not take one operation for another.
fn faults_in_a_row(comm: &Communicator, shared: bool) -> Result<(), String> {
    let mut desk = Desk::new(comm, false, shared);
    for guilty in 0..comm.size() {
        for pattern in ["ffw", "fwf", "fffffw", "wffwfw"] {
            comm.barrier().map_err(|error| error.to_string())?;
            if guilty != comm.rank() {
                std::thread::sleep(Duration::from_millis(2));
            }
            for (index, kind) in pattern.chars().enumerate() {
                let result = match kind {
                    'w' => desk.well(None),
                    _ => desk.faulty("no_input", "data_in", guilty, None),
                };
                result.map_err(|text| format!("operation {index} of {pattern}, rank {guilty} guilty: {text}"))?;
            }
        }
    }
    Ok(())
}

/// A reshape and memory for it: input, output and workspace one after the other.
struct Desk {
    comm: Communicator,
    reshape: Reshape,
    input: Side,
    output: Side,
    shared: Option<SharedBuffer>,
    plain: Vec<u64>,
    bytes: usize,
}

impl Desk {
    /// Collective.
    fn new(comm: &Communicator, in_place: bool, shared: bool) -> Desk {
        let rank = comm.rank();
        let (input, output) =
            (slabs(&SHAPE, 0, comm.size())[rank].clone(), slabs(&SHAPE, 1, comm.size())[rank].clone());
        let options = Options { in_place, ..Options::default() };
        let reshape = Reshape::make(comm, request(&input, &output, 8), &options).expect("make");
        let bytes = (input.volume().max(output.volume()) * 8) as usize;
        let memory = shared.then(|| comm.allocate(3 * bytes).expect("memory"));
        let plain = vec![0; if shared { 0 } else { 3 * bytes / 8 }];
        Desk { comm: comm.clone(), reshape, input, output, shared: memory, plain, bytes }
    }

    fn part(&mut self, index: usize) -> *mut u8 {
        let base = self.shared.as_mut().map_or(self.plain.as_mut_ptr().cast(), SharedBuffer::as_mut_ptr);
        base.wrapping_add(index * self.bytes)
    }

    fn words(&mut self, index: usize) -> &mut [u64] {
        // SAFETY: each part is as long as said, and no execution is under way.
        unsafe { std::slice::from_raw_parts_mut(self.part(index).cast(), self.bytes / 8) }
    }

    fn fill(&mut self) {
        let input = self.input.clone();
        let words = self.words(0);
        input.for_each(|point, place| words[place as usize] = (point[0] * SHAPE[1] + point[1]) as u64);
        self.words(1).fill(u64::MAX);
    }

    fn exec(
        &mut self,
        output: *mut u8,
        input: *mut u8,
        workspace: *mut u8,
        stream: Option<&Stream>,
    ) -> boxwise::Result<()> {
        // SAFETY: valid pointers reach a whole part; the others must be refused.
        let result = unsafe { self.reshape.exec(output, input, workspace, stream) };
        let waited = stream.map_or(Ok(()), Stream::synchronize);
        result.and(waited)
    }

    /// Collective: an execution without fault.
    fn well(&mut self, stream: Option<&Stream>) -> Result<(), String> {
        self.fill();
        let (input, output, workspace) = (self.part(0), self.part(1), self.part(2));
        self.exec(output, input, workspace, stream).map_err(|error| error.to_string())?;
        let (side, mut right) = (self.output.clone(), true);
        let words = self.words(1);
        side.for_each(|point, place| right &= words[place as usize] == (point[0] * SHAPE[1] + point[1]) as u64);
        // The next one spoils the input; by then everybody must have read it.
        if right { Ok(()) } else { Err("the output is wrong".into()) }
    }

    /// Collective: an execution in which one rank's arguments are faulty.
    fn faulty(&mut self, name: &str, named: &str, guilty: usize, stream: Option<&Stream>) -> Result<(), String> {
        self.fill();
        let own = guilty == self.comm.rank();
        let (mut input, mut output, mut workspace) = (self.part(0), self.part(1), self.part(2));
        match name {
            _ if !own => {}
            "no_input" => input = std::ptr::null_mut(),
            "no_output" => output = std::ptr::null_mut(),
            "overlap" => output = input.wrapping_add(8),
            "no_workspace" => workspace = std::ptr::null_mut(),
            "workspace_in_input" => workspace = input.wrapping_add(16),
            _ => workspace = output.wrapping_add(self.bytes / 2),
        }
        let error = self.exec(output, input, workspace, stream).err().ok_or("accepted")?;
        if error.status != Status::InvalidArgument || !error.detail.contains(&format!("rank {guilty}")) {
            return Err(format!("told {error}"));
        }
        if own && !error.detail.contains(named) {
            return Err(format!("told {error}, which does not name {named}"));
        }
        let side = self.input.clone();
        let (words, mut right) = (self.words(0), true);
        side.for_each(|point, place| right &= words[place as usize] == (point[0] * SHAPE[1] + point[1]) as u64);
        // The guilty rank's memory is touched by nobody; nor is anybody's input.
        let untouched = !own || self.words(1).iter().all(|word| *word == u64::MAX);
        if right && untouched { Ok(()) } else { Err("memory was written".into()) }
    }
}
