//! Thousands of random reshapes against the oracle, ranks as threads on pretended nodes: every rank on its own, or
//! several on each, with messages between them.

mod common;

use boxwise::Communicator;
use common::boots::group_on_nodes;
use common::case::Case;
use common::memory::Kinds;
use common::mix;
use common::play::{Fault, Player};
use common::ranks::together;

/// On which node each rank is.
type Nodes = &'static [usize];

const APART: [Nodes; 7] = [
    &[0, 1],
    &[0, 1, 2],
    &[0, 1, 2, 3],
    &[0, 1, 2, 3, 4],
    &[0, 1, 2, 3, 4, 5],
    &[0, 1, 2, 3, 4, 5, 6],
    &[0, 1, 2, 3, 4, 5, 6, 7],
];
const MIXED: [Nodes; 6] =
    [&[0, 0, 1], &[0, 1, 0], &[0, 0, 1, 1], &[0, 1, 1, 0, 2], &[0, 0, 0, 1, 1, 1], &[0, 1, 2, 0, 1, 2, 3, 3]];

fn play(nodes: Nodes, seeds: &[u64], kinds: Kinds) {
    let rank = |boot| {
        move || {
            let comm = Communicator::from_boot(Box::new(boot)).expect("a communicator");
            let rank = comm.rank();
            let mut player = Player::new(comm, kinds).expect("shared memory");
            let mut wrong = Vec::new();
            for &seed in seeds {
                let case = Case::new(seed, nodes.len());
                let told = |text: &str| {
                    format!(
                        "rank {rank} of nodes {nodes:?}: {text}\n{case:#?}\nagain: SEED={seed} cargo test --test \
                         differential_nodes"
                    )
                };
                match player.play(&case) {
                    Ok(()) => {}
                    Err(Fault::Wrong(text)) => wrong.push(told(&text)),
                    Err(Fault::Failed(text)) => panic!("{}", told(&text)),
                }
            }
            wrong
        }
    };
    let wrong: Vec<String> = together(group_on_nodes(nodes).into_iter().map(rank).collect()).concat();
    assert!(wrong.is_empty(), "{} ranks and cases wrong, the first: {}", wrong.len(), wrong[0]);
}

/// With `SEED` every world plays that case, else random ones.
fn play_many(worlds: &[Nodes], cases: u64) {
    let given = std::env::var("SEED").ok().map(|text| text.parse::<u64>().expect("SEED is a number"));
    let first = fastrand::u64(..);
    for (index, nodes) in worlds.iter().enumerate() {
        let kinds = [Kinds::Mixed, Kinds::Shared, Kinds::Plain][index % 3];
        let seeds: Vec<u64> = match given {
            Some(seed) => vec![seed; 20],
            None => (0..cases).map(|case| mix(&[first, index as u64, case])).collect(),
        };
        play(nodes, &seeds, kinds);
    }
}

#[test]
fn every_rank_on_its_own_node() {
    play_many(&APART, 150);
}

#[test]
fn several_ranks_on_each_node() {
    play_many(&MIXED, 150);
}
