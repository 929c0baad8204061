//! Thousands of random reshapes against the oracle, ranks as processes under `boxwise-run`: shared memory, and
//! plain memory through cross-memory attach and through rings.

mod common;

use boxwise::Communicator;
use common::case::Case;
use common::harness::{self, Test};
use common::job::{self, Job};
use common::memory::Kinds;
use common::mix;
use common::play::{Fault, Player};
use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// How the ranks' memory is reached: a name, the kinds of memory, the value of `BOXWISE_CMA`, and whether data then
/// must (or must not) move directly, through rings, and by cross-memory attach.
type Way = (&'static str, &'static str, &'static str, [Option<bool>; 3]);

const ALWAYS: Option<bool> = Some(true);
const NEVER: Option<bool> = Some(false);

const WAYS: [Way; 5] = [
    // What does not fit the shared supply is plain.
    ("shared", "shared", "1", [ALWAYS, None, None]),
    ("plain_cross_memory", "plain", "1", [NEVER, ALWAYS, ALWAYS]),
    ("plain_rings", "plain", "0", [NEVER, ALWAYS, NEVER]),
    ("mixed_cross_memory", "mixed", "1", [ALWAYS, ALWAYS, ALWAYS]),
    ("mixed_rings", "mixed", "0", [ALWAYS, ALWAYS, NEVER]),
];
/// The least number of rounds, over all numbers of ranks, in which data moved as it must.
const LEAST_USED: u64 = 50;
/// The most wrong cases that a rank describes.
const MOST_TOLD: usize = 2;

fn main() -> ExitCode {
    match job::role().as_deref() {
        None => harness::run(tests()),
        Some(_) => play(),
    }
}

fn tests() -> Vec<Test<'static>> {
    // One case again, many times, or a fresh seed for every run.
    if let Ok(named) = std::env::var("CASE") {
        let parts: Vec<String> = named.split(':').map(str::to_owned).collect();
        let [ranks, seed, way] = &parts[..] else { panic!("CASE is ranks:seed:way") };
        let ranks = ranks.parse().expect("a number of ranks");
        let way = *WAYS.iter().find(|(name, ..)| name == way).expect("a way as printed");
        let seed = seed.clone();
        return vec![Test::new("again", move || start(ranks, way, &seed, 100, true).map(drop))];
    }
    let first = std::env::var("SEED").ok().map(|text| text.parse().expect("SEED is a number"));
    let first: u64 = first.unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={first}");
    let methods = Rc::new(RefCell::new(Vec::new()));
    let mut tests = Vec::new();
    for ranks in 1..=8usize {
        for (index, way) in WAYS.into_iter().enumerate() {
            let seed = mix(&[first, ranks as u64, index as u64]).to_string();
            let cases = [0, 100, 300, 250, 200, 150, 120, 100, 100][ranks];
            let name = format!("{}_{ranks}_ranks_{cases}_cases", way.0);
            let methods = Rc::clone(&methods);
            tests.push(Test::new(name, move || {
                let used = start(ranks, way, &seed, cases, false)?;
                methods.borrow_mut().push((way.0, used));
                Ok(())
            }));
        }
    }
    let jobs = tests.len();
    tests.push(Test::new("every_way_was_taken", move || check_methods(&methods.borrow(), jobs)));
    tests
}

fn start(ranks: usize, way: Way, seed: &str, cases: usize, same: bool) -> Result<[u64; 3], String> {
    let count = cases.to_string();
    let variables = [
        ("TEST_SEED", seed),
        ("TEST_CASES", &count),
        ("TEST_SAME", if same { "1" } else { "0" }),
        ("TEST_WAY", way.0),
        ("BOXWISE_CMA", way.2),
    ];
    let outcome = Job::launched(ranks, "play", &variables).wait(Duration::from_secs(60))?;
    let played: usize = outcome.notes.iter().flatten().filter(|line| *line == "ok").count();
    if !outcome.statuses[0].success() || played != ranks * cases {
        return Err(format!("SEED={seed}: {played} of {} played well\n{}", ranks * cases, outcome.output[0]));
    }
    let used = outcome.notes.iter().flatten().filter_map(|line| line.strip_prefix("methods "));
    let mut methods = [0u64; 3];
    used.for_each(|line| {
        methods.iter_mut().zip(line.split(' ')).for_each(|(n, one)| *n += one.parse::<u64>().unwrap())
    });
    Ok(methods)
}

/// The ways in which data moved in all jobs: a way that is never taken would never be tested.
fn check_methods(seen: &[(&str, [u64; 3])], jobs: usize) -> Result<(), String> {
    if seen.len() < jobs {
        println!("{} of {jobs} jobs were played: not every way has had its turn", seen.len());
        return Ok(());
    }
    for (name, _, _, must) in WAYS {
        let of_way = || seen.iter().filter(|(way, _)| *way == name);
        let used: [u64; 3] = std::array::from_fn(|method| of_way().map(|(_, used)| used[method]).sum());
        println!("{name}: rounds in which data moved directly, through rings, by cross-memory attach: {used:?}");
        let right = used.iter().zip(must).all(|(used, must)| match must {
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
    let way = WAYS.into_iter().find(|(name, ..)| *name == variable("TEST_WAY")).expect("a known way");
    let comm = Communicator::world().expect("a world under boxwise-run");
    let (rank, ranks) = (comm.rank(), comm.size());
    let mut player = Player::new(comm, Kinds::named(way.1)).expect("shared memory");
    let (mut right, mut wrong) = (String::new(), 0);
    for index in 0..number("TEST_CASES") {
        let seed = number("TEST_SEED");
        let seed = if number("TEST_SAME") == 1 { seed } else { mix(&[seed, index]) };
        let case = Case::new(seed, ranks);
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
                 again: CASE={ranks}:{seed}:{} cargo test --test differential_processes",
                way.0
            );
        }
        if matches!(fault, Fault::Failed(_)) {
            break;
        }
    }
    let [direct, rings, cross_memory, 0, 0, 0] = player.methods else { panic!("messages on one node, or a GPU") };
    job::note(rank, &format!("{right}methods {direct} {rings} {cross_memory}"));
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
