//! Reshapes of device memory in graphs, on several streams, on subsets of the GPUs, beside an application's own NVSHMEM,
//! and with ranks that pass rubbish, come late or die. Under the stand-ins for the CUDA driver and NVSHMEM, or on
//! the GPUs of this machine.

mod common;

use boxwise::plan::{Backend, ExitSync};
use boxwise::{Communicator, Error, Options, Reshape, Result, Status, Stream};
use common::example::slabs;
use common::file_boot::FileBoot;
use common::gpu::{self, DeviceBuffer, Gpus};
use common::harness::{self, Test};
use common::job::{self, Job};
use common::nvshmem::Nvshmem;
use common::side::{Side, request};
use common::{mix, oracle};
use std::path::PathBuf;
use std::process::ExitCode;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// How soon a lost rank must be noticed: a graphics processor is interpreted here.
const SOON: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(120);
const SHAPE: [i64; 2] = [12, 20];
const ELEMENT: usize = 4;

/// A scenario by name: its number of ranks, and what each rank does.
type Scenario = (&'static str, usize, fn(&Communicator));

const SCENARIOS: [Scenario; 15] = [
    ("graph_replayed", 3, graph_replayed),
    ("two_streams", 2, two_streams),
    ("destroyed_while_queued", 3, destroyed_while_queued),
    ("subsets", 4, subsets),
    ("backend_chosen", 2, backend_chosen),
    ("applications_own", 3, applications_own),
    (WORLD_OF_NVSHMEM, 3, world_of_nvshmem),
    ("bad_arguments", 3, bad_arguments),
    ("wrong_memory", 2, wrong_memory),
    ("bad_make", 3, bad_make),
    ("made_again_and_again", 2, made_again_and_again),
    ("late", 2, late),
    ("killed", 3, killed),
    ("killed_before_destroy", 3, killed_before_destroy),
    (DEVICE_FAILS, 3, device_fails),
];
/// Begins with NVSHMEM, which counts its PEs the other way round than boxwise-run its ranks.
const WORLD_OF_NVSHMEM: &str = "world_of_nvshmem";
const DEVICE_FAILS: &str = "device_fails";
/// The rank that dies, or is at fault.
const VICTIM: usize = 1;

fn main() -> ExitCode {
    let Some(role) = job::role() else { return harness::run(tests()) };
    let (_, _, play) = SCENARIOS.into_iter().find(|(name, ..)| *name == role).expect("a known scenario");
    let variable = |name| std::env::var(name).ok().and_then(|text| text.parse().ok()).expect("set by boxwise-run");
    let (rank, ranks): (usize, usize) = (variable("BOXWISE_RANK"), variable("BOXWISE_SIZE"));
    if role == WORLD_OF_NVSHMEM {
        // Its library stays loaded.
        std::mem::forget(initialise_nvshmem(ranks - 1 - rank, ranks));
    }
    let comm = Communicator::world().expect("a world");
    play(&comm);
    job::note(rank, "well");
    ExitCode::SUCCESS
}

fn tests() -> Vec<Test<'static>> {
    let Some(gpus) = Gpus::find() else { return Vec::new() };
    let ways = match gpus {
        Gpus::Simulated(_) => &["all", "none"][..],
        Gpus::Real => &["as_they_are"],
    };
    let mut tests = Vec::new();
    for (name, ranks, _) in SCENARIOS {
        // Real ones are not broken on purpose.
        if name == DEVICE_FAILS && matches!(gpus, Gpus::Real) {
            continue;
        }
        for &reachable in ways {
            let gpus = gpus.clone();
            let test = move || start(name, ranks, &gpus, reachable);
            tests.push(Test::new(format!("{name}_reachable_{reachable}"), test));
        }
    }
    tests
}

fn start(name: &str, ranks: usize, gpus: &Gpus, reachable: &str) -> std::result::Result<(), String> {
    let before = job::traces();
    let seed = fastrand::u64(..).to_string();
    let outcome = Job::launched(ranks, name, &gpus.variables(reachable, &seed)).wait(LIMIT)?;
    let dies = name.starts_with("killed");
    let is_well = |rank: &usize| outcome.notes[*rank].iter().any(|line| line == "well");
    let well = (0..ranks).filter(is_well).count();
    if well != ranks - usize::from(dies) || outcome.statuses[0].success() == dies || !outcome.left.is_empty() {
        let text = &outcome.output[0];
        return Err(format!("GPU_SIM_SEED={seed}: {well} of {ranks} were well, left {:?}\n{text}", outcome.left));
    }
    job::no_traces_since(&before)
}

/// Rows to columns of a matrix, with memory for it.
struct Rig {
    reshape: Reshape,
    input: Side,
    output: Side,
    /// Three buffers.
    memory: DeviceBuffer,
}

/// Bytes of one of the three buffers of a rig.
const BUFFER: usize = 4096;

impl Rig {
    /// Collective over the world, for its memory; and over the communicator.
    fn new(comm: &Communicator, options: &Options) -> Rig {
        Rig::within(comm, options, DeviceBuffer::new(3 * BUFFER).expect("device memory"))
    }

    fn within(comm: &Communicator, options: &Options, memory: DeviceBuffer) -> Rig {
        let (rank, ranks) = (comm.rank(), comm.size());
        let (input, output) = (slabs(&SHAPE, 0, ranks)[rank].clone(), slabs(&SHAPE, 1, ranks)[rank].clone());
        let reshape = Reshape::make(comm, request(&input, &output, ELEMENT), options).expect("make");
        assert!(reshape.workspace_bytes() <= BUFFER, "{} bytes of workspace", reshape.workspace_bytes());
        Rig { reshape, input, output, memory }
    }

    fn buffer(&self, number: usize) -> *mut u8 {
        self.memory.pointer().wrapping_add(number * BUFFER)
    }

    fn bytes_of(side: &Side, key: u64) -> Vec<u8> {
        let mut bytes = vec![0xa5; BUFFER];
        side.for_each(|point, place| {
            let at = oracle::byte_at(0, place, ELEMENT);
            let element = mix(&[key, point[0] as u64, point[1] as u64]) as u32;
            bytes[at..at + ELEMENT].copy_from_slice(&element.to_ne_bytes());
        });
        bytes
    }

    /// Puts the input of that key there, and poison into the output.
    fn fill(&self, key: u64) {
        gpu::driver().write(self.buffer(0), &Rig::bytes_of(&self.input, key));
        gpu::driver().write(self.buffer(1), &[0xa5; BUFFER]);
    }

    fn check(&self, key: u64) {
        let mut found = vec![0; BUFFER];
        gpu::driver().read(self.buffer(1), &mut found);
        assert!(found == Rig::bytes_of(&self.output, key), "the output of {key} is wrong");
    }

    fn exec(&self, stream: gpu::Handle) -> Result<()> {
        self.exec_with(self.buffer(1), self.buffer(0), stream)
    }

    fn exec_with(&self, output: *mut u8, input: *mut u8, stream: gpu::Handle) -> Result<()> {
        // SAFETY: where they are not on purpose wrong, the buffers are as long as the sides say.
        unsafe { self.reshape.exec_on_cuda_stream(output, input, self.buffer(2), stream) }
    }

    /// Fills, moves and checks.
    fn once(&self, key: u64) -> Result<()> {
        self.fill(key);
        self.exec(null_mut())?;
        self.reshape.settle()?;
        self.check(key);
        Ok(())
    }
}

fn on_device() -> Options {
    Options { backend: Backend::Nvshmem, ..Options::default() }
}

fn graph_replayed(comm: &Communicator) {
    let rigs =
        [Rig::new(comm, &on_device()), Rig::new(comm, &Options { exit_sync: ExitSync::Everyone, ..on_device() })];
    let stream = gpu::driver().stream();
    let graph = stream.capture(|| {
        rigs.iter().for_each(|rig| rig.exec(stream.stream).expect("recorded"));
        rigs[0].exec(stream.stream).expect("recorded twice");
    });
    for key in 0..5 {
        rigs.iter().enumerate().for_each(|(index, rig)| rig.fill(mix(&[key, index as u64])));
        if key == 3 {
            // Between graphs also without one.
            rigs.iter().for_each(|rig| rig.exec(stream.stream).expect("queued"));
        } else {
            graph.launch(&stream);
        }
        stream.synchronize();
        rigs.iter().enumerate().for_each(|(index, rig)| rig.check(mix(&[key, index as u64])));
    }
    rigs.iter().for_each(|rig| rig.reshape.settle().expect("no operation failed"));
}

fn two_streams(comm: &Communicator) {
    let rigs = [Rig::new(comm, &on_device()), Rig::new(comm, &on_device())];
    let streams = [gpu::driver().stream(), gpu::driver().stream()];
    for key in 0..4 {
        // The ranks queue in different orders.
        for index in if comm.rank() == 0 { [0, 1] } else { [1, 0] } {
            rigs[index].fill(key + index as u64);
            rigs[index].exec(streams[index].stream).expect("queued");
        }
        streams.iter().for_each(gpu::CudaStream::synchronize);
        rigs.iter().enumerate().for_each(|(index, rig)| rig.check(key + index as u64));
    }
}

fn destroyed_while_queued(comm: &Communicator) {
    let Rig { reshape, input, output, memory } = Rig::new(comm, &on_device());
    let rig = Rig { reshape, input, output, memory };
    rig.fill(7);
    let stream = gpu::driver().stream();
    if comm.rank() == 0 {
        // The others have queued theirs, and are waiting in their destroy.
        std::thread::sleep(Duration::from_millis(200));
    }
    (0..5).for_each(|_| rig.exec(stream.stream).expect("queued"));
    let Rig { reshape, input, output, memory } = rig;
    drop(reshape);
    // A new plan in the place of the old one.
    let rig = Rig::within(comm, &on_device(), memory);
    assert!(rig.input == input && rig.output == output);
    rig.check(7);
    rig.once(8).expect("the new plan works");
}

fn notes_directory() -> PathBuf {
    std::env::var("TEST_NOTES").expect("a job has a place for notes").into()
}

fn subsets(comm: &Communicator) {
    let groups: [&[usize]; 2] = [&[2, 0, 1], &[1, 3]];
    // The world sees to it that NVSHMEM is there.
    let whole = Rig::new(comm, &on_device());
    let memories: Vec<DeviceBuffer> = groups.iter().map(|_| DeviceBuffer::new(3 * BUFFER).expect("memory")).collect();
    let mut rigs = Vec::new();
    for (index, (group, memory)) in groups.into_iter().zip(memories).enumerate() {
        let Some(rank) = group.iter().position(|&member| member == comm.rank()) else {
            // To free it concerns all PEs, also those that use it.
            std::mem::forget(memory);
            continue;
        };
        let boot = FileBoot::new(&notes_directory(), &format!("group-{index}"), rank, group.len());
        let subset = Communicator::from_boot(Box::new(boot)).expect("a communicator");
        rigs.push((Rig::within(&subset, &on_device(), memory), index as u64, gpu::driver().stream()));
    }
    for key in 0..3 {
        for (rig, index, stream) in &rigs {
            rig.fill(key + index);
            rig.exec(stream.stream).expect("queued");
        }
        whole.once(key + 100).expect("the whole world beside its parts");
        for (rig, index, stream) in &rigs {
            stream.synchronize();
            rig.check(key + index);
        }
    }
    // Memory is given back by all together.
    comm.barrier().expect("barrier");
    let members: Vec<u64> = rigs.iter().map(|(_, index, _)| *index).collect();
    assert_eq!(members.len(), groups.iter().filter(|group| group.contains(&comm.rank())).count());
    std::mem::forget(rigs);
}

fn backend_chosen(comm: &Communicator) {
    gpu::driver();
    let sides = [slabs(&SHAPE, 0, comm.size()), slabs(&SHAPE, 1, comm.size())];
    let make = |backend| {
        let request = request(&sides[0][comm.rank()], &sides[1][comm.rank()], ELEMENT);
        Reshape::make(comm, request, &Options { backend, ..Options::default() }).expect("make").backend()
    };
    assert_eq!(make(Backend::Auto), Backend::Host, "nobody has initialised NVSHMEM");
    assert_eq!(make(Backend::Nvshmem), Backend::Nvshmem);
    assert_eq!(make(Backend::Auto), Backend::Nvshmem, "it is initialised now");
    assert_eq!(make(Backend::Host), Backend::Host);
    let rig = Rig::new(comm, &on_device());
    let describe = |rig: &Rig| rig.reshape.describe(boxwise::plan::Format::Text);
    assert!(describe(&rig).contains("backend    nvshmem") && describe(&rig).contains("not executed yet"));
    rig.once(3).expect("moved");
    let words = ["direct stores", "NVSHMEM puts"].map(|word| describe(&rig).contains(word));
    assert!(words == [true, false] || words == [false, true], "{}", describe(&rig));
}

/// The application has initialised NVSHMEM, and goes on to use it when the library is done.
/// As an application does.
fn initialise_nvshmem(pe: usize, pes: usize) -> (Nvshmem, FileBoot) {
    gpu::driver();
    let nvshmem = Nvshmem::load();
    let boot = FileBoot::new(&notes_directory(), "application", pe, pes);
    let id = if pe == 0 { nvshmem.unique_id() } else { Default::default() };
    let ids = boot.gather(bytemuck::bytes_of(&id));
    nvshmem.initialise(pe, pes, bytemuck::pod_read_unaligned(&ids[0]));
    (nvshmem, boot)
}

fn world_of_nvshmem(comm: &Communicator) {
    let launched: usize = std::env::var("BOXWISE_RANK").expect("set by boxwise-run").parse().expect("a number");
    assert_eq!((comm.rank(), comm.size()), (2 - launched, 3), "the number of the PE");
    Rig::new(comm, &Options::default()).once(3).expect("moved");
}

fn applications_own(comm: &Communicator) {
    let (nvshmem, boot) = initialise_nvshmem(comm.rank(), comm.size());
    let own = nvshmem.malloc(3 * BUFFER);
    let rig = Rig::new(comm, &Options::default());
    assert_eq!(rig.reshape.backend(), Backend::Nvshmem, "which is initialised");
    rig.once(5).expect("moved");
    // Its own memory serves as well as ours.
    let [input, output] = [0, BUFFER].map(|offset| own.wrapping_add(offset));
    gpu::driver().write(input, &Rig::bytes_of(&rig.input, 6));
    gpu::driver().write(output, &[0xa5; BUFFER]);
    rig.exec_with(output, input, null_mut()).expect("queued");
    rig.reshape.settle().expect("moved");
    let mut found = vec![0; BUFFER];
    gpu::driver().read(output, &mut found);
    assert!(found == Rig::bytes_of(&rig.output, 6), "the output in memory of the application is wrong");
    drop(rig);
    assert!(nvshmem.is_initialised(), "it was not ours to end");
    nvshmem.free(nvshmem.malloc(100));
    nvshmem.free(own);
    boot.gather(&[]);
    nvshmem.finalise();
}

fn expect_fault(result: Result<()>, words: &[&str]) -> Error {
    let error = result.expect_err("a fault");
    assert_eq!(error.status, Status::InvalidArgument, "{error}");
    words.iter().for_each(|word| assert!(error.detail.contains(word), "{error}"));
    error
}

fn bad_arguments(comm: &Communicator) {
    for exit_sync in [ExitSync::Input, ExitSync::Everyone] {
        let rig = Rig::new(comm, &Options { exit_sync, ..on_device() });
        rig.once(1).expect("all is well");
        let host = [0u8; BUFFER];
        let host = host.as_ptr().cast_mut();
        let elsewhere = gpu::driver().allocate(BUFFER);
        let stream = Stream::new().expect("a host stream");
        type Attempt<'a> = (&'a dyn Fn() -> Result<()>, &'a [&'a str]);
        let [input, output] = [rig.buffer(0), rig.buffer(1)];
        let attempts: [Attempt; 6] = [
            (&|| rig.exec_with(output, null_mut(), null_mut()), &["data_in is NULL"]),
            (&|| rig.exec_with(input, input, null_mut()), &["overlaps", "BOXWISE_OPTION_IN_PLACE"]),
            (&|| rig.exec_with(output, host, null_mut()), &["data_in", "BOXWISE_OPTION_BACKEND"]),
            (&|| rig.exec_with(host, input, null_mut()), &["data_out", "BOXWISE_OPTION_BACKEND"]),
            (&|| rig.exec_with(output, elsewhere, null_mut()), &["data_in"]),
            // SAFETY: it is refused.
            (&|| unsafe { rig.reshape.exec(output, input, rig.buffer(2), Some(&stream)) }, &["host stream"]),
        ];
        for (attempt, words) in attempts {
            if comm.rank() == VICTIM {
                expect_fault(attempt(), &[words, &["rank 1"]].concat());
            } else {
                rig.exec(null_mut()).expect("queued");
                gpu::driver().synchronize();
            }
            // Told once, with the next operation, which works.
            rig.fill(2);
            let told = rig.exec(null_mut());
            match comm.rank() == VICTIM {
                true => told.expect("the fault was told before"),
                false => drop(expect_fault(told, &["rank 1"])),
            }
            rig.reshape.settle().expect("told once");
            rig.check(2);
            rig.once(3).expect("the handle stays usable");
        }
        gpu::driver().free(elsewhere);
    }
}

fn wrong_memory(comm: &Communicator) {
    let memory = DeviceBuffer::new(3 * BUFFER).expect("device memory");
    let (rank, ranks) = (comm.rank(), comm.size());
    let sides = [slabs(&SHAPE, 0, ranks)[rank].clone(), slabs(&SHAPE, 1, ranks)[rank].clone()];
    let options = Options { backend: Backend::Host, ..Options::default() };
    let reshape = Reshape::make(comm, request(&sides[0], &sides[1], ELEMENT), &options).expect("make");
    let mut host = [0u8; BUFFER];
    // SAFETY: the wrong memory is refused.
    let told = unsafe { reshape.exec(host.as_mut_ptr(), memory.pointer(), null_mut(), None) };
    expect_fault(told, &["data_in", "memory of a GPU", "BOXWISE_OPTION_BACKEND"]);
}

fn bad_make(comm: &Communicator) {
    gpu::driver();
    for round in 0..3 {
        let (rank, ranks) = (comm.rank(), comm.size());
        let mut input = slabs(&SHAPE, 0, ranks)[rank].clone();
        if rank == VICTIM && round != 2 {
            // A hole, or a box that is none.
            input.upper[0] = if round == 0 { input.lower[0] } else { input.lower[0] - 5 };
        }
        let made = Reshape::make(comm, request(&input, &slabs(&SHAPE, 1, ranks)[rank], ELEMENT), &on_device());
        match (round, made) {
            (0, Err(error)) => assert_eq!(error.status, Status::Inconsistent, "{error}"),
            (1, Err(error)) => assert_eq!(error.status, Status::InvalidArgument, "{error}"),
            (2, Ok(_)) => Rig::new(comm, &on_device()).once(9).expect("make works again"),
            (_, made) => panic!("round {round}: {:?}", made.err()),
        }
    }
}

fn made_again_and_again(comm: &Communicator) {
    let mut memory = Some(DeviceBuffer::new(3 * BUFFER).expect("device memory"));
    for round in 0..300 {
        let rig = Rig::within(comm, &on_device(), memory.take().expect("given back"));
        if round % 50 == 0 {
            rig.once(round).expect("moved");
        }
        memory = Some(rig.memory);
    }
}

fn late(comm: &Communicator) {
    let rig = Rig::new(comm, &Options { timeout_ms: 300, ..on_device() });
    rig.once(1).expect("in time");
    comm.barrier().expect("barrier");
    if comm.rank() == VICTIM {
        std::thread::sleep(Duration::from_millis(1500));
    }
    let told = rig.exec(null_mut()).and_then(|()| rig.reshape.settle()).expect_err("one came too late");
    let right = if comm.rank() == VICTIM { Status::PeerLost } else { Status::Timeout };
    assert_eq!(told.status, right, "{told}");
    let told = rig.exec(null_mut()).expect_err("out of use");
    assert_eq!(told.status, Status::PeerLost, "{told}");
    leave_behind(rig);
}

/// What is given back by all together cannot be, where some are lost.
fn leave_behind(rig: Rig) {
    let Rig { reshape, memory, .. } = rig;
    let begun = Instant::now();
    drop(reshape);
    assert!(begun.elapsed() < SOON, "destroy took {:?}", begun.elapsed());
    std::mem::forget(memory);
}

fn die() -> ! {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("killed")
}

fn killed(comm: &Communicator) {
    let rig = Rig::new(comm, &on_device());
    rig.once(1).expect("while all are well");
    comm.barrier().expect("while all are well");
    if comm.rank() == VICTIM {
        std::thread::sleep(Duration::from_millis(100));
        die();
    }
    let begun = Instant::now();
    let told = loop {
        match rig.exec(null_mut()).and_then(|()| rig.reshape.settle()) {
            Err(error) => break error,
            Ok(()) => assert!(begun.elapsed() < SOON, "nobody was lost"),
        }
    };
    assert!(begun.elapsed() < SOON, "told after {:?}", begun.elapsed());
    assert!(told.status == Status::PeerLost && told.detail.contains("rank 1"), "{told}");
    assert_eq!(rig.exec(null_mut()).expect_err("out of use").status, Status::PeerLost);
    leave_behind(rig);
}

fn killed_before_destroy(comm: &Communicator) {
    let rig = Rig::new(comm, &on_device());
    comm.barrier().expect("while all are well");
    if comm.rank() == VICTIM {
        die();
    }
    let _ = rig.exec(null_mut());
    leave_behind(rig);
}

/// One rank's GPU fails, and its program does no more than destroy. The memory is never given back, and nobody waits.
fn device_fails(comm: &Communicator) {
    let rig = Rig::new(comm, &on_device());
    rig.once(1).expect("while all are well");
    comm.barrier().expect("while all are well");
    let Rig { reshape, memory, .. } = rig;
    let begun = Instant::now();
    if comm.rank() == VICTIM {
        // The others have left the barrier.
        std::thread::sleep(Duration::from_millis(100));
        gpu::driver().fail();
    } else {
        let [input, output, workspace] = [0, 1, 2].map(|number| memory.pointer().wrapping_add(number * BUFFER));
        // SAFETY: the buffers are as long as the sides say.
        let queued = unsafe { reshape.exec_on_cuda_stream(output, input, workspace, null_mut()) };
        let told = queued.and_then(|()| reshape.settle()).expect_err("one does not take part");
        assert!(told.status == Status::PeerLost && told.detail.contains("rank 1"), "{told}");
    }
    drop(reshape);
    assert!(memory.free().expect_err("NVSHMEM would wait for ever").contains("rank 1"));
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
}
