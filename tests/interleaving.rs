//! Handles in any interleaving: on streams, from several threads, on several communicators and overlapping
//! subsets of ranks at once, and with more ranks than cores. Ranks as threads and as processes.

mod common;

use boxwise::plan::{ExitSync, Options};
use boxwise::{Communicator, Reshape, Stream};
use common::case::Case;
use common::example::slabs;
use common::harness::{self, Test};
use common::job::{self, Job};
use common::memory::Kinds;
use common::play::Player;
use common::ranks::{in_threads, together};
use common::side::{Side, request};
use common::{boots, mix};
use fastrand::Rng;
use std::process::ExitCode;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

/// What every rank of a world does.
type Play = (&'static str, fn(Communicator));

const PLAYS: [Play; 9] = [
    ("handles_take_turns_in_any_common_order", handles_take_turns_in_any_common_order),
    ("on_streams_every_rank_has_an_order_of_its_own", on_streams_every_rank_has_an_order_of_its_own),
    ("handles_are_used_by_several_threads", handles_of_one_communicator_are_used_by_several_threads),
    ("one_handle_goes_from_thread_to_thread", one_handle_goes_from_thread_to_thread),
    ("two_plans_run_while_others_come_and_go", two_plans_run_at_once_while_others_are_made_and_dropped),
    ("a_handle_may_go_while_its_work_is_queued", a_handle_may_go_while_its_work_is_queued),
    ("a_communicator_may_go_before_its_handles", a_communicator_may_go_while_handles_and_memory_are_in_use),
    ("more_can_be_queued_than_fits_the_queue", more_can_be_queued_than_fits_the_queue),
    ("a_sender_may_run_ahead", a_sender_may_run_ahead),
];

fn main() -> ExitCode {
    let Some(role) = job::role() else { return harness::run(tests()) };
    let comm = Communicator::world().expect("a world");
    let (_, play) = PLAYS.into_iter().chain([CROWD]).find(|(name, _)| *name == role).expect("a play");
    let rank = comm.rank();
    play(comm);
    job::note(rank, "well");
    ExitCode::SUCCESS
}

const CROWD: Play = ("a_crowd_gets_through", a_crowd_gets_through);

fn tests() -> Vec<Test<'static>> {
    let mut tests = Vec::new();
    let plays = PLAYS.into_iter().map(|play| (play, 3)).chain([(CROWD, 16)]);
    for ((name, play), ranks) in plays {
        tests.push(Test::new(format!("threads_{name}"), move || {
            in_threads(ranks, play);
            Ok(())
        }));
        for (way, cma) in [("cross_memory", "1"), ("rings", "0")] {
            tests.push(Test::new(format!("{way}_{name}"), move || {
                let outcome = Job::launched(ranks, name, &[("BOXWISE_CMA", cma)]).wait(Duration::from_secs(100))?;
                let well = (0..ranks).all(|rank| outcome.notes[rank] == ["well"]);
                if well { Ok(()) } else { Err(format!("{outcome:#?}")) }
            }));
        }
    }
    for (name, test) in [
        ("threads_a_larger_crowd", (|| drop(in_threads(32, a_crowd_gets_through))) as fn()),
        ("threads_overlapping_subsets_of_ranks_work_at_once", overlapping_subsets_of_ranks_work_at_once),
        ("threads_different_worlds_work_at_once", different_worlds_work_at_once),
        ("threads_exit_sync_of_everyone", with_exit_synchronisation_of_everyone_all_outputs_are_whole),
    ] {
        tests.push(Test::new(name, move || {
            test();
            Ok(())
        }));
    }
    tests
}

/// A reshape between two splits of one shape, whose contents a number tells apart.
struct Turn {
    reshape: Reshape,
    input: Side,
    output: Side,
    shape: Vec<i64>,
}

impl Turn {
    /// Collective.
    fn make(comm: &Communicator, inputs: &[Side], outputs: &[Side], options: &Options) -> Turn {
        let (input, output) = (inputs[comm.rank()].clone(), outputs[comm.rank()].clone());
        let shape = (0..input.ndims()).map(|d| outputs.iter().map(|side| side.upper[d]).max().unwrap()).collect();
        let reshape = Reshape::make(comm, request(&input, &output, 8), options).expect("make");
        Turn { reshape, input, output, shape }
    }

    fn value(&self, point: &[i64], number: u64) -> u64 {
        let index = point.iter().zip(&self.shape).fold(0, |index, (g, extent)| index * extent + g);
        number << 32 | index as u64
    }

    fn filled(&self, side: &Side, number: u64) -> Vec<u64> {
        let mut values = vec![0; side.volume() as usize];
        side.for_each(|point, place| values[place as usize] = self.value(point, number));
        values
    }

    fn buffers(&self, number: u64) -> Buffers {
        let output = vec![u64::MAX; self.output.volume() as usize];
        Buffers { input: self.filled(&self.input, number), output, expected: self.filled(&self.output, number) }
    }

    /// Collective.
    fn exec(&self, buffers: &mut Buffers, stream: Option<&Stream>) {
        let (output, input) = (buffers.output.as_mut_ptr().cast(), buffers.input.as_ptr().cast());
        // SAFETY: the arrays are as large as the boxes, and every test keeps them until the operation is over.
        unsafe { self.reshape.exec(output, input, std::ptr::null_mut(), stream) }.expect("exec");
    }

    /// Collective: one execution and its check.
    fn play(&self, number: u64) {
        let mut buffers = self.buffers(number);
        self.exec(&mut buffers, None);
        buffers.check(number);
    }
}

struct Buffers {
    input: Vec<u64>,
    output: Vec<u64>,
    expected: Vec<u64>,
}

impl Buffers {
    fn check(&self, number: u64) {
        assert!(self.output == self.expected, "execution {number} is wrong");
    }
}

/// Several turns of different shapes, the same on all ranks. Collective.
fn turns(comm: &Communicator, count: usize) -> Vec<Turn> {
    let ranks = comm.size();
    (0..count)
        .map(|index| {
            // Every other one with runs that are long enough for cross-memory attach.
            let shape = [4 + index as i64, 9, if index % 2 == 0 { 3 + 2 * index as i64 } else { 300 }];
            let (from, to) = (index % 3, (index + 1) % 3);
            // Buffers are dropped as soon as an execution is over.
            let exit_sync = [ExitSync::Input, ExitSync::Everyone][index % 2];
            let options = Options { exit_sync, ..Options::default() };
            Turn::make(comm, &slabs(&shape, from, ranks), &slabs(&shape, to, ranks), &options)
        })
        .collect()
}

/// Fails the test when a case does.
fn play_cases(comm: Communicator, kinds: Kinds, seed: u64, cases: u64) {
    let mut player = Player::new(comm.clone(), kinds).expect("memory");
    for index in 0..cases {
        let case = Case::new(mix(&[seed, index]), comm.size());
        player.play(&case).unwrap_or_else(|fault| panic!("rank {}: {fault:?}\n{case:#?}", comm.rank()));
    }
}

fn handles_take_turns_in_any_common_order(comm: Communicator) {
    let turns = turns(&comm, 5);
    let mut random = Rng::with_seed(1);
    (0..2000).for_each(|number| turns[random.usize(0..5)].play(number));
}

fn on_streams_every_rank_has_an_order_of_its_own(comm: Communicator) {
    let turns = turns(&comm, 4);
    let streams: Vec<Stream> = turns.iter().map(|_| Stream::new().expect("a stream")).collect();
    let mut random = Rng::with_seed(comm.rank() as u64);
    for round in 0..150 {
        // Each handle does three operations, in order on its stream; the handles in any order.
        let mut queue: Vec<usize> = (0..12).map(|index| index % 4).collect();
        random.shuffle(&mut queue);
        let mut done = [0; 4];
        let mut all = Vec::new();
        for handle in queue {
            let number = round * 3 + done[handle];
            done[handle] += 1;
            let mut buffers = turns[handle].buffers(number);
            turns[handle].exec(&mut buffers, Some(&streams[handle]));
            all.push((number, buffers));
        }
        streams.iter().for_each(|stream| stream.synchronize().expect("queued executions"));
        assert!(streams.iter().all(|stream| stream.is_idle()), "nothing is left on a synchronised stream");
        all.iter().for_each(|(number, buffers)| buffers.check(*number));
    }
}

fn handles_of_one_communicator_are_used_by_several_threads(comm: Communicator) {
    let turns = turns(&comm, 4);
    std::thread::scope(|scope| {
        for turn in &turns {
            scope.spawn(|| (0..600).for_each(|number| turn.play(number)));
        }
    });
}

fn one_handle_goes_from_thread_to_thread(comm: Communicator) {
    let turn = Mutex::new((0, turns(&comm, 1).remove(0)));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let mut held = turn.lock().unwrap();
                    held.1.play(held.0);
                    held.0 += 1;
                }
            });
        }
    });
}

fn two_plans_run_at_once_while_others_are_made_and_dropped(comm: Communicator) {
    let turns = turns(&comm, 2);
    std::thread::scope(|scope| {
        for turn in &turns {
            scope.spawn(|| (0..500).for_each(|number| turn.play(number)));
        }
        for number in 0..100 {
            let slab = slabs(&[6, 6], 0, 3);
            Turn::make(&comm, &slab, &slabs(&[6, 6], 1, 3), &Options::default()).play(number);
            drop(comm.allocate(1000).expect("shared memory"));
            comm.barrier().expect("barrier");
        }
    });
}

/// A rank that only sends is complete before anybody has read what it posted, and posts again.
fn a_sender_may_run_ahead(comm: Communicator) {
    const MANY: u64 = 300;
    let options = Options { exit_sync: ExitSync::Output, ..Options::default() };
    let (whole, nothing) = (Side::packed(&[0], &[1200]), Side::packed(&[0], &[0]));
    let mut inputs = vec![nothing; comm.size()];
    let mut outputs = inputs.clone();
    inputs[0] = whole.clone();
    outputs[1..].fill(whole);
    let turn = Turn::make(&comm, &inputs, &outputs, &options);
    let mut all: Vec<Buffers> = (0..MANY).map(|number| turn.buffers(number)).collect();
    for (buffers, number) in all.iter_mut().zip(0..) {
        if comm.rank() > 0 && number % 10 == 0 {
            std::thread::sleep(Duration::from_micros(300));
        }
        turn.exec(buffers, None);
    }
    // The inputs are needed until all have read them.
    comm.barrier().expect("barrier");
    all.iter().zip(0..).for_each(|(buffers, number)| buffers.check(number));
}

/// Every rank belongs to several communicators, formed over a boot table, and has a thread for each.
fn overlapping_subsets_of_ranks_work_at_once() {
    let groups: [&[usize]; 6] = [&[0, 1, 2, 3], &[0, 1], &[1, 2], &[2, 3], &[3, 0], &[3, 0, 2]];
    let mut tasks: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for (index, members) in groups.iter().enumerate() {
        for boot in boots::group(members.len()) {
            let kinds = [Kinds::Mixed, Kinds::Plain, Kinds::Shared][index % 3];
            tasks.push(Box::new(move || {
                let comm = Communicator::from_boot(Box::new(boot)).expect("a communicator");
                play_cases(comm, kinds, index as u64, 60);
            }));
        }
    }
    together(tasks);
}

fn different_worlds_work_at_once() {
    std::thread::scope(|scope| {
        for seed in 10..14 {
            scope.spawn(move || in_threads(3, |comm| play_cases(comm, Kinds::Mixed, seed, 60)));
        }
    });
}

fn a_handle_may_go_while_its_work_is_queued(comm: Communicator) {
    for round in 0..200 {
        let stream = Stream::new().expect("a stream");
        let mut all = Vec::new();
        for (index, turn) in turns(&comm, 3).into_iter().enumerate() {
            let number = round * 3 + index as u64;
            let mut buffers = turn.buffers(number);
            if comm.rank() == 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
            turn.exec(&mut buffers, Some(&stream));
            drop(turn);
            all.push((number, buffers));
        }
        // Either way everything queued has run.
        if round % 2 == 0 {
            stream.synchronize().expect("queued executions");
        }
        drop(stream);
        all.iter().for_each(|(number, buffers)| buffers.check(*number));
    }
}

fn a_communicator_may_go_while_handles_and_memory_are_in_use(comm: Communicator) {
    let turn = turns(&comm, 1).remove(0);
    let memory = comm.allocate(4096).expect("shared memory");
    drop(comm);
    (0..300).for_each(|number| turn.play(number));
    assert_eq!(memory.len(), 4096);
}

fn more_can_be_queued_than_fits_the_queue(comm: Communicator) {
    const MANY: u64 = 3000;
    let sides = slabs(&[4], 0, comm.size());
    let mut shifted = sides.clone();
    shifted.rotate_left(1);
    let turn = Turn::make(&comm, &sides, &shifted, &Options::default());
    let stream = Stream::new().expect("a stream");
    let mut all: Vec<Buffers> = (0..MANY).map(|number| turn.buffers(number)).collect();
    all.iter_mut().for_each(|buffers| turn.exec(buffers, Some(&stream)));
    stream.synchronize().expect("queued executions");
    all.iter().zip(0..).for_each(|(buffers, number)| buffers.check(number));
}

/// Ranks look into each other's memory, so they are threads.
fn with_exit_synchronisation_of_everyone_all_outputs_are_whole() {
    let ranks = 4;
    let (outputs, pause) = (Mutex::new(vec![(0usize, 0usize); ranks]), Barrier::new(ranks));
    let wrong: u64 = in_threads(ranks, |comm| {
        let options = Options { exit_sync: ExitSync::Everyone, ..Options::default() };
        // Only rank 3 receives anything, and rank 0 has nothing to do at all: nothing else makes it wait.
        let mut inputs = slabs(&[4000], 0, ranks - 1);
        inputs.insert(0, Side::packed(&[0], &[0]));
        let mut wants = vec![Side::packed(&[0], &[0]); ranks];
        wants[3] = Side::packed(&[0], &[4000]);
        let turn = Turn::make(&comm, &inputs, &wants, &options);
        let mut wrong = 0;
        for number in 0..400 {
            let mut buffers = turn.buffers(number);
            outputs.lock().unwrap()[comm.rank()] = (buffers.output.as_ptr() as usize, buffers.output.len());
            if comm.rank() == 3 && number % 4 == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
            turn.exec(&mut buffers, None);
            let (address, length) = outputs.lock().unwrap()[3];
            // SAFETY: rank 3 keeps its array until all have passed the barrier, and has finished writing it.
            let seen = unsafe { std::slice::from_raw_parts(address as *const u64, length) };
            wrong += u64::from(length != 4000 || (0..length).any(|index| seen[index] != number << 32 | index as u64));
            pause.wait();
        }
        wrong
    })
    .iter()
    .sum();
    assert_eq!(wrong, 0, "outputs that were not whole on rank 3");
}

/// Small executions among more ranks than there are cores: whoever spins keeps the others from working.
fn a_crowd_gets_through(comm: Communicator) {
    let ranks = comm.size();
    let shape = [ranks as i64, ranks as i64 + 1];
    let all_to_all = Turn::make(&comm, &slabs(&shape, 0, ranks), &slabs(&shape, 1, ranks), &Options::default());
    let neighbours = slabs(&[2 * ranks as i64], 0, ranks);
    let mut shifted = neighbours.clone();
    shifted.rotate_left(1);
    let ring = Turn::make(&comm, &neighbours, &shifted, &Options::default());
    for number in 0..1000 {
        if number % 8 == 0 {
            all_to_all.play(number);
        }
        ring.play(number);
    }
}
