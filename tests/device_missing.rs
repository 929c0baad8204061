//! What is told where the driver, NVSHMEM, the GPU or its context is missing or unfit: a status with advice on every
//! rank, and the host backend as before. The stand-ins for the CUDA driver and NVSHMEM are spoilt for it.

mod common;

use boxwise::plan::Backend;
use boxwise::{Communicator, Options, Reshape, Status};
use common::example::slabs;
use common::gpu::{self, DeviceBuffer, Gpus};
use common::harness::{self, Test};
use common::job::{self, Job};
use common::side::{Side, request};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const RANKS: usize = 2;
const SHAPE: [i64; 2] = [6, 4];
const DRIVER: &str = "libcuda.so.1";
const NVSHMEM: &str = "libnvshmem_host.so.3";

/// What is done to one of the libraries.
#[derive(Clone, Copy)]
enum Spoilt {
    Nothing,
    Absent(&'static str),
    /// A file that is no library.
    Text(&'static str),
    /// A library without that function.
    Lacks(&'static str, &'static str),
}

/// A name, the spoilt library, a variable, and the status and words that every rank is told.
type Case = (&'static str, Spoilt, (&'static str, &'static str), Status, &'static [&'static str]);

const NONE: (&str, &str) = ("UNUSED", "");
const CASES: [Case; 13] = [
    ("no_driver", Spoilt::Absent(DRIVER), NONE, Status::Unavailable, &[DRIVER, "BOXWISE_BACKEND_HOST"]),
    ("driver_is_no_library", Spoilt::Text(DRIVER), NONE, Status::Unavailable, &[DRIVER, "BOXWISE_BACKEND_HOST"]),
    ("old_driver", Spoilt::Nothing, ("GPU_SIM_VERSION", "11080"), Status::Unavailable, &["11.8", "newer driver"]),
    ("driver_lacks_launch", Spoilt::Lacks(DRIVER, "cuLaunchKernel"), NONE, Status::Unavailable, &["cuLaunchKernel"]),
    ("driver_lacks_init", Spoilt::Lacks(DRIVER, "cuInit"), NONE, Status::Unavailable, &["cuInit"]),
    ("driver_lacks_error", Spoilt::Lacks(DRIVER, "cuGetErrorName"), NONE, Status::Unavailable, &["cuGetErrorName"]),
    ("no_gpu", Spoilt::Nothing, ("GPU_SIM_DEVICES", "0"), Status::Device, &["NO_DEVICE", "nvidia-smi"]),
    ("no_context", Spoilt::Nothing, NONE, Status::Device, &["no CUDA context", "cudaSetDevice"]),
    ("no_context_on_rank_1", Spoilt::Nothing, NONE, Status::Device, &["rank 1", "no CUDA context"]),
    ("no_nvshmem", Spoilt::Absent(NVSHMEM), NONE, Status::Unavailable, &[NVSHMEM, "NVSHMEM_HOME"]),
    ("nvshmem_is_no_library", Spoilt::Text(NVSHMEM), NONE, Status::Unavailable, &[NVSHMEM, "NVSHMEM_HOME"]),
    (
        "nvshmem_lacks_function",
        Spoilt::Lacks(NVSHMEM, "nvshmemx_cumodule_init"),
        NONE,
        Status::Unavailable,
        &["nvshmemx_cumodule_init"],
    ),
    ("kernels_for_other_gpus", Spoilt::Nothing, ("GPU_SIM_IMAGE", "/dev/null"), Status::Device, &["NO_BINARY"]),
];

fn main() -> ExitCode {
    let Some(role) = job::role() else { return harness::run(tests()) };
    let (.., status, words) = CASES.into_iter().find(|(name, ..)| *name == role).expect("a known case");
    let comm = Communicator::world().expect("a world under boxwise-run");
    play(&comm, &role, status, words);
    job::note(comm.rank(), "well");
    ExitCode::SUCCESS
}

fn tests() -> Vec<Test<'static>> {
    let Some(Gpus::Simulated(stand_ins)) = Gpus::find() else { return Vec::new() };
    let test = |(name, spoilt, variable, ..): Case| {
        let stand_ins = stand_ins.clone();
        Test::new(name, move || start(name, spoilt, variable, Path::new(&stand_ins)))
    };
    CASES.into_iter().map(test).collect()
}

fn start(name: &str, spoilt: Spoilt, variable: (&str, &str), stand_ins: &Path) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("boxwise-missing-{}-{name}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder for libraries");
    for library in [DRIVER, NVSHMEM] {
        let whole = std::fs::read(stand_ins.join(library)).expect("the stand-ins are placed");
        let bytes = match spoilt {
            Spoilt::Absent(which) if which == library => continue,
            Spoilt::Text(which) if which == library => b"no library".to_vec(),
            Spoilt::Lacks(which, function) if which == library => without(whole, function),
            _ => whole,
        };
        std::fs::write(folder.join(library), bytes).expect("a library");
    }
    let path = folder.to_str().expect("a name in UTF-8");
    let variables = [("LD_LIBRARY_PATH", path), ("NVSHMEM_HOME", ""), variable];
    let ended = Job::launched(RANKS, name, &variables).wait(Duration::from_secs(60));
    std::fs::remove_dir_all(&folder).expect("own folder");
    let outcome = ended?;
    let well = outcome.notes.iter().flatten().filter(|line| *line == "well").count();
    match well == RANKS && outcome.statuses[0].success() && outcome.left.is_empty() {
        true => Ok(()),
        false => Err(format!("{well} of {RANKS} were well, left {:?}\n{}", outcome.left, outcome.output[0])),
    }
}

/// The library with that function under a name that nobody looks for.
fn without(mut library: Vec<u8>, function: &str) -> Vec<u8> {
    let name = format!("\0{function}\0").into_bytes();
    let found: Vec<usize> = (0..library.len() - name.len()).filter(|&at| library[at..].starts_with(&name)).collect();
    assert!(!found.is_empty(), "{function} is not exported");
    found.into_iter().for_each(|at| library[at + 1] = b'_');
    library
}

fn play(comm: &Communicator, case: &str, status: Status, words: &[&str]) {
    let (rank, ranks) = (comm.rank(), comm.size());
    // What comes after the context is only missed with one.
    let has_context = match case {
        "no_context_on_rank_1" => rank != 1,
        _ => case.contains("nvshmem") || case.starts_with("kernels"),
    };
    if has_context {
        gpu::driver();
    }
    let sides = [slabs(&SHAPE, 0, ranks)[rank].clone(), slabs(&SHAPE, 1, ranks)[rank].clone()];
    let make =
        |backend| Reshape::make(comm, request(&sides[0], &sides[1], 1), &Options { backend, ..Options::default() });
    for _ in 0..2 {
        let error = make(Backend::Nvshmem).expect_err("something is missing");
        assert_eq!(error.status, status, "{error}");
        words.iter().for_each(|word| assert!(error.detail.contains(word), "{error}"));
    }
    let told = DeviceBuffer::in_this_context(100).err().expect("something is missing");
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
    // Without NVSHMEM nothing is lost but NVSHMEM.
    let reshape = make(if case.starts_with("kernels") { Backend::Host } else { Backend::Auto }).expect("a host plan");
    assert_eq!(reshape.backend(), Backend::Host);
    let input = values(&sides[0]);
    let mut output = vec![0xa5; sides[1].volume() as usize];
    let mut workspace = vec![0; reshape.workspace_bytes()];
    // SAFETY: the buffers are as long as the sides say.
    let moved = unsafe { reshape.exec(output.as_mut_ptr(), input.as_ptr(), workspace.as_mut_ptr(), None) };
    moved.expect("moved on the host");
    assert!(values(&sides[1]) == output, "the host backend lost something");
}

/// Every element of a packed side: its number in the global array.
fn values(side: &Side) -> Vec<u8> {
    let mut values = Vec::new();
    side.for_each(|point, _| values.push((point[0] * SHAPE[1] + point[1]) as u8));
    values
}
