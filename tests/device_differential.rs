//! Random reshapes of device memory against the oracle, ranks as processes under `boxwise-run`: with GPUs that reach
//! one another, that do not, and both. Under the stand-ins for the CUDA driver and NVSHMEM, whose kernels are interpreted;
//! or on the GPUs of this machine.

mod common;

use boxwise::Communicator;
use boxwise::plan::Backend;
use common::case::Case;
use common::gpu::Gpus;
use common::harness::{self, Test};
use common::job::{self, Job};
use common::memory::Kinds;
use common::mix;
use common::play::{Fault, Player};
use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// Which GPUs reach one another: as the stand-in for NVSHMEM is told, and whether data then must (or must not) move by
/// stores of kernels and by NVSHMEM puts.
type Way = (&'static str, [Option<bool>; 2]);

const ALWAYS: Option<bool> = Some(true);
const NEVER: Option<bool> = Some(false);

/// Of real GPUs.
const AS_THEY_ARE: Way = ("as_they_are", [None, None]);
const WAYS: [Way; 3] = [("all", [ALWAYS, NEVER]), ("none", [NEVER, ALWAYS]), ("odd", [ALWAYS, ALWAYS])];
/// By number of ranks.
const CASES: [usize; 5] = [0, 12, 24, 20, 16];
/// The least number of rounds, over all numbers of ranks, in which data moved as it must.
const LEAST_USED: u64 = 10;
/// The most wrong cases that a rank describes.
const MOST_TOLD: usize = 2;

fn main() -> ExitCode {
    match job::role().as_deref() {
        None => harness::run(tests()),
        Some(_) => play(),
    }
}

fn tests() -> Vec<Test<'static>> {
    let Some(gpus) = Gpus::find() else { return Vec::new() };
    let ways = match gpus {
        Gpus::Simulated(_) => &WAYS[..],
        Gpus::Real => &[AS_THEY_ARE],
    };
    // One case again, or a fresh seed for every run.
    if let Ok(named) = std::env::var("CASE") {
        let parts: Vec<String> = named.split(':').map(str::to_owned).collect();
        let [ranks, seed, way] = &parts[..] else { panic!("CASE is ranks:seed:way") };
        let ranks = ranks.parse().expect("a number of ranks");
        let way = *ways.iter().find(|(name, _)| name == way).expect("a way as printed");
        let seed = seed.clone();
        return vec![Test::new("again", move || start(&gpus, ranks, way, &seed, 3, true).map(drop))];
    }
    let first = std::env::var("SEED").ok().map(|text| text.parse().expect("SEED is a number"));
    let first: u64 = first.unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={first}");
    let methods = Rc::new(RefCell::new(Vec::new()));
    let mut tests = Vec::new();
    for (ranks, cases) in CASES.into_iter().enumerate().skip(1) {
        for (index, way) in ways.iter().copied().enumerate() {
            let seed = mix(&[first, ranks as u64, index as u64]).to_string();
            let name = format!("reachable_{}_{ranks}_ranks_{cases}_cases", way.0);
            let (methods, gpus) = (Rc::clone(&methods), gpus.clone());
            tests.push(Test::new(name, move || {
                let used = start(&gpus, ranks, way, &seed, cases, false)?;
                methods.borrow_mut().push((way.0, used));
                Ok(())
            }));
        }
    }
    let jobs = tests.len();
    tests.push(Test::new("every_way_was_taken", move || check_methods(&methods.borrow(), ways, jobs)));
    tests
}

fn start(gpus: &Gpus, ranks: usize, way: Way, seed: &str, cases: usize, same: bool) -> Result<[u64; 2], String> {
    let count = cases.to_string();
    let mut variables = gpus.variables(way.0, seed);
    variables.extend([
        ("TEST_SEED", seed),
        ("TEST_CASES", &count),
        ("TEST_SAME", if same { "1" } else { "0" }),
        ("TEST_WAY", way.0),
    ]);
    let outcome = Job::launched(ranks, "play", &variables).wait(limit())?;
    let played: usize = outcome.notes.iter().flatten().filter(|line| *line == "ok").count();
    if !outcome.statuses[0].success() || played != ranks * cases {
        return Err(format!("SEED={seed}: {played} of {} played well\n{}", ranks * cases, outcome.output[0]));
    }
    let used = outcome.notes.iter().flatten().filter_map(|line| line.strip_prefix("methods "));
    let mut methods = [0u64; 2];
    used.for_each(|line| {
        methods.iter_mut().zip(line.split(' ')).for_each(|(n, one)| *n += one.parse::<u64>().unwrap())
    });
    Ok(methods)
}

/// How long a job may take. Mutants of the kernels get less.
fn limit() -> Duration {
    let seconds = std::env::var("TEST_LIMIT_S").map_or(300, |text| text.parse().expect("seconds"));
    Duration::from_secs(seconds)
}

/// The ways in which data moved in all jobs: a way that is never taken would never be tested.
fn check_methods(seen: &[(&str, [u64; 2])], ways: &[Way], jobs: usize) -> Result<(), String> {
    if seen.len() < jobs {
        println!("{} of {jobs} jobs were played: not every way has had its turn", seen.len());
        return Ok(());
    }
    for (name, must) in ways {
        let of_way = || seen.iter().filter(|(way, _)| way == name);
        let used: [u64; 2] = std::array::from_fn(|method| of_way().map(|(_, used)| used[method]).sum());
        println!("reachable {name}: rounds in which data moved by stores of kernels, by NVSHMEM puts: {used:?}");
        let right = used.iter().zip(must).all(|(used, must)| match *must {
            ALWAYS => *used >= LEAST_USED,
            NEVER => *used == 0,
            None => true,
        });
        if !right {
            return Err(format!("{name}: {used:?}"));
        }
    }
    Ok(())
}

/// What a rank does: its part in every case.
fn play() -> ExitCode {
    let variable = |name: &str| std::env::var(name).expect("set by the test that started this job");
    let number = |name: &str| variable(name).parse::<u64>().expect("a number");
    let comm = Communicator::world().expect("a world under boxwise-run");
    let (rank, ranks) = (comm.rank(), comm.size());
    let mut player = match Player::new(comm, Kinds::Device) {
        Ok(player) => player,
        Err(error) => {
            eprintln!("rank {rank}: no device memory: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut right, mut wrong) = (String::new(), 0);
    for index in 0..number("TEST_CASES") {
        let seed = number("TEST_SEED");
        let seed = if number("TEST_SAME") == 1 { seed } else { mix(&[seed, index]) };
        let mut case = Case::small(seed, ranks);
        // NVSHMEM is initialised already, so that both mean it.
        case.options.backend = if seed & 1 == 0 { Backend::Nvshmem } else { Backend::Auto };
        let fault = match player.play(&case) {
            Ok(()) => {
                right.push_str("ok\n");
                continue;
            }
            Err(fault) => fault,
        };
        wrong += 1;
        let (Fault::Wrong(text) | Fault::Failed(text)) = &fault;
        if wrong <= MOST_TOLD {
            eprintln!(
                "rank {rank}: {text}\n{case:#?}\n\
                 again: CASE={ranks}:{seed}:{} cargo test --features cuda --test device_differential",
                variable("TEST_WAY")
            );
        }
        if matches!(fault, Fault::Failed(_)) {
            break;
        }
    }
    let [0, 0, 0, 0, stores, puts] = player.methods else { panic!("data moved on the host: {:?}", player.methods) };
    job::note(rank, &format!("{right}methods {stores} {puts}"));
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
