//! Thousands of random reshapes against the oracle, ranks as threads: every byte of every buffer.

mod common;

use boxwise::plan::ExitSync;
use common::case::Case;
use common::memory::Kinds;
use common::play::{Fault, Player};
use common::side::Side;
use common::{mix, ranks};

/// Cases that one world of threads plays before it is replaced.
const CASES_PER_WORLD: usize = 60;

/// A fresh seed for every run, or the one given in `SEED`.
fn first_seed() -> u64 {
    let given = std::env::var("SEED").ok().map(|text| text.parse().expect("SEED is a number"));
    given.unwrap_or_else(|| fastrand::u64(..))
}

fn play_many(ranks: usize, worlds: usize) {
    let first = first_seed();
    println!("SEED={first}, {ranks} ranks, {} cases", worlds * CASES_PER_WORLD);
    for world in 0..worlds {
        let seeds: Vec<u64> = (0..CASES_PER_WORLD).map(|i| mix(&[first, world as u64, i as u64])).collect();
        play(ranks, &seeds, [Kinds::Mixed, Kinds::Shared, Kinds::Plain][world % 3]);
    }
}

fn play(ranks: usize, seeds: &[u64], kinds: Kinds) {
    let wrong = ranks::in_threads(ranks, |comm| {
        let rank = comm.rank();
        let mut player = Player::new(comm, kinds).expect("shared memory");
        let mut wrong = Vec::new();
        for &seed in seeds {
            let case = Case::new(seed, ranks);
            match player.play(&case) {
                Ok(()) => {}
                Err(Fault::Wrong(text)) => wrong.push(failure(&case, rank, kinds, &text)),
                Err(Fault::Failed(text)) => panic!("{}", failure(&case, rank, kinds, &text)),
            }
        }
        wrong
    });
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} ranks and cases wrong, the first: {}", wrong.len(), wrong[0]);
}

fn failure(case: &Case, rank: usize, kinds: Kinds, text: &str) -> String {
    let (seed, ranks) = (case.seed, case.ranks);
    format!(
        "rank {rank}: {text}\n{case:#?}\nagain: CASE={ranks}:{seed}:{kinds:?} cargo test --test differential_threads \
         -- again --nocapture"
    )
}

/// Plays the case that `CASE=ranks:seed:kinds` names, many times.
#[test]
fn again() {
    let Ok(named) = std::env::var("CASE") else { return };
    let mut parts = named.split(':');
    let mut next = || parts.next().expect("CASE is ranks:seed:kinds");
    let ranks = next().parse().expect("a number of ranks");
    let seed = next().parse().expect("a seed");
    play(ranks, &[seed; 100], Kinds::named(&next().to_lowercase()));
}

#[test]
fn one_rank() {
    play_many(1, 12);
}

#[test]
fn two_ranks() {
    play_many(2, 14);
}

#[test]
fn three_ranks() {
    play_many(3, 12);
}

#[test]
fn four_ranks() {
    play_many(4, 10);
}

#[test]
fn five_ranks() {
    play_many(5, 8);
}

#[test]
fn six_ranks() {
    play_many(6, 6);
}

#[test]
fn seven_ranks() {
    play_many(7, 5);
}

#[test]
fn eight_ranks() {
    play_many(8, 4);
}

/// The generator is worth its time only if it makes every kind of case, and often.
#[test]
fn cases_are_of_every_kind() {
    let cases: Vec<Case> = (0..3000).map(|seed| Case::new(mix(&[seed]), 1 + seed as usize % 8)).collect();
    let count = |kind: &dyn Fn(&Case) -> bool| cases.iter().filter(|case| kind(case)).count();
    let sides = |case: &Case, is: &dyn Fn(&Side) -> bool| case.inputs.iter().chain(&case.outputs).any(is);
    let strides = |side: &Side, is: &dyn Fn(i64) -> bool| {
        !side.is_empty() && (0..side.ndims()).any(|d| side.extent(d) > 1 && is(side.steps()[d]))
    };
    for ndims in 1..=8 {
        assert!(count(&|case| case.inputs[0].ndims() == ndims) > 250, "{ndims} dimensions");
    }
    for size in [1, 2, 3, 4, 8, 12, 16, 24, 64] {
        assert!(count(&|case| case.element_size == size) > 200, "elements of {size} bytes");
    }
    assert!(count(&|case| case.element_size > 64) > 100, "large elements");
    assert!(count(&|case| case.inputs.iter().any(Side::is_empty)) > 500, "empty inputs");
    assert!(count(&|case| case.outputs.iter().any(Side::is_empty)) > 500, "empty outputs");
    assert!(count(&|case| sides(case, &|side| side.lower.iter().any(|&l| l < 0))) > 1000, "negative origins");
    assert!(count(&|case| sides(case, &|side| strides(side, &|step| step < 0))) > 300, "negative strides");
    assert!(count(&|case| case.inputs.iter().any(|side| strides(side, &|step| step == 0))) > 50, "stride 0");
    assert!(count(&|case| sides(case, &|side| side.span_bytes(1) as i64 > side.volume())) > 1000, "padding");
    let falls = |side: &Side| side.steps().windows(2).any(|pair| pair[0] != 0 && pair[0].abs() < pair[1].abs());
    assert!(count(&|case| sides(case, &falls)) > 800, "permuted memory");
    let overlap = |sides: &[Side]| {
        (0..sides.len()).any(|a| {
            let mut found = false;
            sides[a].for_each(|point, _| found |= (0..a).any(|b| sides[b].contains(point)));
            found
        })
    };
    assert!(count(&|case| overlap(&case.outputs)) > 400, "overlapping outputs");
    assert!(count(&|case| overlap(&case.inputs) && case.options.allow_replicas) > 200, "replicas");
    assert!(count(&|case| case.options.in_place) > 500, "in place");
    assert!(count(&|case| !case.options.entry_sync) > 300, "no entry synchronisation");
    for exit_sync in [ExitSync::Output, ExitSync::Input, ExitSync::Everyone] {
        assert!(count(&|case| case.options.exit_sync == exit_sync) > 400, "{exit_sync:?}");
    }
    let guilty: Vec<bool> = cases.iter().map(|case| !case.guilty_ranks().is_empty()).collect();
    let refused = guilty.iter().filter(|&&guilty| guilty).count();
    assert!((100..900).contains(&refused), "{refused} refused");
    let large = count(&|case| case.outputs.iter().any(|side| side.span_bytes(case.element_size) > 1 << 20));
    assert!(large > 10, "{large} large");
}
