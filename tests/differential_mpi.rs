//! Random reshapes against the oracle on communicators made from MPI's: ranks on one node, on pretended nodes of their
//! own, and both.
//!
//! `scripts/test mpi` starts it under the launchers of MPI; by itself it does nothing. A job has one number of ranks, one
//! thread level and one kind of network; in it all layouts of nodes, all kinds of memory and several communicators have
//! their turn.

mod common;
#[path = "mpi/shim.rs"]
mod shim;

use boxwise::{Communicator, Options, Request, Reshape, Side, Status, Stream};
use common::case::Case;
use common::memory::Kinds;
use common::mix;
use common::play::{Fault, Player};
use shim::{Comm, Mpi};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// What `BOXWISE_NODE` says: rank r of a communicator is on the node of entry r modulo the length.
const LAYOUTS: [&str; 5] = ["0", "0,1,2,3,4,5,6,7", "0,0,1", "0,1,0", "0,1,1,0,2"];
const KINDS: [(&str, Kinds); 3] = [("shared", Kinds::Shared), ("plain", Kinds::Plain), ("mixed", Kinds::Mixed)];
/// How often the case named in `CASE` is played.
const AGAIN: u64 = 100;
/// The most wrong cases that a rank describes.
const MOST_TOLD: usize = 2;

/// A communicator and this rank's players on it, one for each kind of memory.
struct Seat {
    name: &'static str,
    players: Vec<Player>,
}

/// What a job is told.
struct Job {
    /// As in `CASE`: family, ranks, thread level, network.
    name: String,
    seed: u64,
    /// For each communicator of each layout.
    cases: u64,
    /// The layout, the kind of memory, the communicator and the seed of one case, to be played again.
    again: Option<[String; 4]>,
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("scripts/test mpi sets {name}"))
}

fn main() -> ExitCode {
    let Ok(path) = std::env::var("TEST_SHIM") else {
        println!("differential_mpi: played under the launchers of MPI by `scripts/test mpi`");
        return ExitCode::SUCCESS;
    };
    let again = std::env::var("TEST_AGAIN").ok().map(|text| {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        words.try_into().expect("layout, memory, communicator and seed")
    });
    let number = |name: &str| variable(name).parse().expect("a number");
    let job = Job { name: variable("TEST_JOB"), seed: number("TEST_SEED"), cases: number("TEST_CASES"), again };
    let mpi = Mpi::start(&path, &variable("TEST_LEVEL"));
    let play = || LAYOUTS.iter().map(|nodes| job.play(&mpi, nodes)).sum::<u64>();
    // The others would wait for this rank.
    let wrong = catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|_| mpi.abort());
    if wrong == 0 && mpi.world().rank() == 0 {
        // Launchers may lose what a rank prints that leaves without MPI's end.
        std::fs::write(variable("TEST_VERDICT"), "all cases were right\n").expect("the verdict can be written");
    }
    mpi.finalize(std::env::var("TEST_NO_FINALIZE").is_ok());
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Job {
    /// Plays on one layout of nodes; how many cases were wrong on any rank.
    fn play(&self, mpi: &Mpi, nodes: &str) -> u64 {
        if self.again.as_ref().is_some_and(|[layout, ..]| layout != nodes) {
            return 0;
        }
        // SAFETY: no other thread of ours reads the environment meanwhile.
        unsafe { std::env::set_var("BOXWISE_NODE", nodes) };
        let world = mpi.world();
        let spans_nodes = pairs(nodes, world.size()).1;
        let mut seats = sit_down(mpi);
        if spans_nodes && !mpi.any_thread {
            refuses_streams(&world);
        }
        let mut wrong = 0;
        let rounds = if self.again.is_some() { AGAIN } else { self.cases };
        for round in 0..rounds {
            for seat in &mut seats {
                wrong += self.play_once(nodes, seat, round, wrong as usize);
            }
        }
        let players = || seats.iter().flat_map(|seat| &seat.players);
        let mut used = [0, 1, 2, 3].map(|method| players().map(|player| player.methods[method]).sum());
        world.sum(&mut used);
        world.sum(std::slice::from_mut(&mut wrong));
        if world.rank() == 0 && self.again.is_none() {
            println!(
                "nodes {nodes}: rounds with data moved directly, by rings, by cross-memory, by messages: {used:?}"
            );
            check_methods(nodes, world.size(), used);
        }
        wrong
    }

    /// One case on one communicator: 1 if it was wrong here.
    fn play_once(&self, nodes: &str, seat: &mut Seat, round: u64, told: usize) -> u64 {
        let kinds = match &self.again {
            None => round as usize % KINDS.len(),
            Some([_, _, communicator, _]) if communicator != seat.name => return 0,
            Some([_, kinds, ..]) => KINDS.iter().position(|(name, _)| name == kinds).expect("a kind of memory"),
        };
        let seed = match &self.again {
            None => mix(&[self.seed, round, text_number(nodes), text_number(seat.name)]),
            Some([.., seed]) => seed.parse().expect("the seed of a case"),
        };
        let player = &mut seat.players[kinds];
        let (rank, case) = (player.rank(), Case::new(seed, player.size()));
        let Err(fault) = player.play(&case) else { return 0 };
        let (Fault::Wrong(text) | Fault::Failed(text)) = &fault;
        if told < MOST_TOLD {
            eprintln!(
                "rank {rank} of {} \"{}\": {text}\n{case:#?}\n\
                 again: CASE='{} {nodes} {} {} {seed}' scripts/test mpi",
                player.size(),
                seat.name,
                self.name,
                KINDS[kinds].0,
                seat.name
            );
        }
        assert!(!matches!(fault, Fault::Failed(_)), "the ranks may be out of step");
        1
    }
}

/// This rank's places on communicators of several kinds. MPI's own are freed before anything moves.
fn sit_down(mpi: &Mpi) -> Vec<Seat> {
    let world = mpi.world();
    let (rank, size) = (world.rank(), world.size());
    let part = |inside: bool, key: i32| world.split(inside.then_some(0), key);
    let comms = [
        // Not the world itself: what is made on that stays, with the nodes of the first time.
        ("copy", Some(world.dup())),
        ("halves", world.split(Some((rank % 2) as i32), 0)),
        ("reversed", part(true, -(rank as i32))),
        // These two have the middle ranks in common.
        ("lower", part(rank <= size * 2 / 3, 0)),
        ("upper", part(rank >= size / 3, -(rank as i32))),
    ];
    let mut seats = Vec::new();
    for (name, comm) in comms {
        let Some(comm) = comm else { continue };
        let made = from_mpi(&comm);
        assert_eq!((made.rank(), made.size()), (comm.rank(), comm.size()), "{name}");
        drop(comm);
        let player = |kinds| {
            let mut player = Player::new(made.clone(), kinds).expect("shared memory");
            player.streams = mpi.any_thread || made.size() == 1;
            player
        };
        seats.push(Seat { name, players: KINDS.iter().map(|&(_, kinds)| player(kinds)).collect() });
    }
    seats
}

fn from_mpi(comm: &Comm) -> Communicator {
    // SAFETY: the handle is that of a communicator, and all its ranks call.
    unsafe { Communicator::from_mpi(comm.handle()) }.expect("a communicator")
}

/// Below MPI_THREAD_MULTIPLE the thread of a stream must not call MPI: all ranks are told, and nothing is lost. Every
/// rank exchanges data with every other here, so that each has some on another node.
fn refuses_streams(world: &Comm) {
    let comm = from_mpi(&world.dup());
    let (rank, size) = (comm.rank() as i64, comm.size() as i64);
    let held = Side { lower: &[rank], upper: &[rank + 1], strides: None };
    let wanted = Side { lower: &[0], upper: &[size], strides: None };
    let reshape = Reshape::make(&comm, Request::describe(8, held, wanted), &Options::default()).expect("made");
    let stream = Stream::new().expect("a stream");
    let mut output = vec![-1; comm.size()];
    for on_stream in [true, false, true] {
        let stream = on_stream.then_some(&stream);
        let (to, from) = (output.as_mut_ptr().cast(), (&raw const rank).cast());
        // SAFETY: they hold the whole of their boxes, and live longer than the operation.
        let result = unsafe { reshape.exec(to, from, std::ptr::null_mut(), stream) };
        match on_stream {
            true => assert_eq!(result.map_err(|error| error.status), Err(Status::NotSupported)),
            false => assert_eq!(result, Ok(())),
        }
    }
    stream.synchronize().expect("nothing was queued");
    assert_eq!(output, Vec::from_iter(0..size));
}

/// Of MPI's world, rank r is on host r modulo so many.
fn hosts() -> usize {
    std::env::var("TEST_HOSTS").map_or(1, |text| text.parse().expect("a number of hosts"))
}

/// Whether in this layout some ranks share a node, and whether some do not.
fn pairs(nodes: &str, ranks: usize) -> (bool, bool) {
    let names: Vec<&str> = nodes.split(',').collect();
    let node = |rank: usize| (names[rank % names.len()], rank % hosts());
    let all = || (0..ranks).flat_map(|one| (0..one).map(move |other| (one, other)));
    (all().any(|(one, other)| node(one) == node(other)), all().any(|(one, other)| node(one) != node(other)))
}

/// A way that is never taken would never be tested.
fn check_methods(nodes: &str, ranks: usize, used: [u64; 4]) {
    let (shares, spans) = pairs(nodes, ranks);
    let [direct, rings, cross_memory, messages] = used;
    // Ranks of one host may be neighbours on another communicator than the world.
    assert!(hosts() > 1 || (direct + rings + cross_memory > 0) == shares, "on a node");
    assert_eq!(messages > 0, spans, "across nodes");
}

fn text_number(text: &str) -> u64 {
    text.bytes().fold(0, |key, byte| mix(&[key, byte as u64]))
}
