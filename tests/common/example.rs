//! Cases written by hand, played like random ones, and even splits of a shape.

use super::case::Case;
use super::memory::Kinds;
use super::play::Player;
use super::ranks;
use super::side::Side;
use boxwise::plan::Options;

/// These boxes with these options, executed twice.
pub fn case(inputs: Vec<Side>, outputs: Vec<Side>, element_size: usize, options: Options) -> Case {
    let ranks = inputs.len();
    assert_eq!(ranks, outputs.len());
    let (rounds, execs_per_round, fresh_memory) = (2, 1, false);
    Case { seed: 42, ranks, element_size, inputs, outputs, options, rounds, execs_per_round, fresh_memory }
}

/// Plays the case with ranks as threads, in shared, plain and mixed memory.
pub fn holds(case: &Case) {
    assert_eq!(case.guilty_ranks(), [0; 0], "the case itself is valid");
    for kinds in [Kinds::Shared, Kinds::Plain, Kinds::Mixed] {
        let results = ranks::in_threads(case.ranks, |comm| Player::new(comm, kinds).expect("memory").play(case));
        for (rank, result) in results.into_iter().enumerate() {
            assert!(result.is_ok(), "rank {rank}, {kinds:?} memory: {result:?}");
        }
    }
}

/// As [`holds`] with default options.
pub fn moves(inputs: Vec<Side>, outputs: Vec<Side>, element_size: usize) {
    holds(&case(inputs, outputs, element_size, Options::default()));
}

/// Part `index` of `extent` cut into `parts` of nearly equal size, the larger ones first.
pub fn share(extent: i64, index: usize, parts: usize) -> (i64, i64) {
    let (parts, index) = (parts as i64, index as i64);
    let first = |i: i64| i * (extent / parts) + i.min(extent % parts);
    (first(index), first(index + 1))
}

/// The boxes of a grid of ranks over a shape, the last dimension of the grid fastest.
pub fn grid(shape: &[i64], parts: &[usize]) -> Vec<Side> {
    let ranks: usize = parts.iter().product();
    let side = |rank: usize| {
        let (mut left, mut lower, mut upper) = (rank, vec![0; shape.len()], vec![0; shape.len()]);
        for d in (0..shape.len()).rev() {
            (lower[d], upper[d]) = share(shape[d], left % parts[d], parts[d]);
            left /= parts[d];
        }
        Side::packed(&lower, &upper)
    };
    (0..ranks).map(side).collect()
}

/// The shape cut along dimension `d` only.
pub fn slabs(shape: &[i64], d: usize, ranks: usize) -> Vec<Side> {
    let mut parts = vec![1; shape.len()];
    parts[d] = ranks;
    grid(shape, &parts)
}
