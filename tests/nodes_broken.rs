//! Communicators that span nodes, here pretended, and break: whoever waits is told, without a timeout, and who has
//! finished may leave.

mod common;

use boxwise::plan::ExitSync;
use boxwise::{Boot, Communicator, Options, Request, Reshape, Result, Side, Status};
use common::boots::{Faults, ThreadBoot, group_on_nodes};
use common::nodes::{execute, on_faulty_nodes, on_nodes, shift, statuses, unchanged};
use common::ranks::together;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use Status::Success as Good;

#[test]
fn messages_are_given_back_unless_the_communicator_broke() {
    for breaks in [false, true] {
        let mut boots = group_on_nodes(&[0, 1]);
        let held = Arc::default();
        boots.iter_mut().for_each(|boot| boot.held = Arc::clone(&held));
        let member = |boot: ThreadBoot| {
            move || {
                let rank = boot.rank();
                let comm = Communicator::from_boot(Box::new(boot)).expect("a communicator");
                let reshape = shift(&comm, Options { timeout_ms: 100, ..Options::default() }).expect("made");
                // Alone, rank 0 waits in vain; the other hears of it in its next collective call.
                let told = if rank == 0 || !breaks { execute(&reshape, false, None) } else { comm.barrier() };
                assert_eq!(told.is_err(), breaks, "{told:?}");
                assert!(breaks || reshape.methods() == 8, "all goes in messages");
            }
        };
        together(boots.into_iter().map(member).collect());
        assert_eq!(Arc::strong_count(&held), if breaks { 3 } else { 1 }, "breaks: {breaks}");
    }
}

#[test]
fn the_end_of_the_communicator_is_told_across_nodes() {
    // Nobody else executes: rank 0 gives up after a while, and those in the barrier would wait without end.
    for nodes in [&[0, 1, 2, 3][..], &[0, 0, 1, 1], &[0, 1, 1, 0]] {
        let started = Instant::now();
        let seen = on_nodes(nodes, unchanged, |comm| {
            let reshape = shift(&comm, Options { timeout_ms: 400, ..Options::default() }).expect("made");
            match comm.rank() {
                0 => execute(&reshape, false, None),
                // Takes part later: it hears of the end as soon as it comes.
                3 => {
                    std::thread::sleep(Duration::from_millis(1500));
                    comm.barrier()
                }
                _ => comm.barrier(),
            }
        });
        assert_eq!(statuses(&seen), [Status::Timeout, Status::PeerLost, Status::PeerLost, Status::PeerLost]);
        let told = seen[1].as_ref().expect_err("told").detail.clone();
        assert!(told.contains("rank 0 gave up"), "{told}");
        assert!(started.elapsed() < Duration::from_secs(4), "{nodes:?}: {:?}", started.elapsed());
    }
}

#[test]
fn a_rank_that_leaves_is_missed_on_its_node_and_then_on_the_others() {
    let seen = on_nodes(&[0, 0, 1, 2], unchanged, |comm| match comm.rank() {
        1 => Ok(()),
        _ => comm.barrier(),
    });
    assert_eq!(statuses(&seen), [Status::PeerLost, Good, Status::PeerLost, Status::PeerLost]);
}

#[test]
fn a_rank_that_has_finished_may_leave_before_the_others() {
    for late_message in 0..14 {
        let late = |boot: &mut ThreadBoot| boot.late_message = (boot.rank() == 2).then_some(late_message);
        let seen = on_nodes(&[0, 0, 1, 1], late, |comm| comm.barrier());
        assert_eq!(statuses(&seen), [Good; 4], "barrier, late message {late_message}");
        let seen = on_nodes(&[0, 0, 1, 1], late, |comm| {
            let reshape = shift(&comm, Options { exit_sync: ExitSync::Everyone, ..Options::default() })?;
            execute(&reshape, false, None)
        });
        assert_eq!(statuses(&seen), [Good; 4], "exit sync 2, late message {late_message}");
    }
}

/// Ranks 0 and `other` swap what they hold; the rest hold nothing.
fn swap(communicator: &Communicator, other: usize) -> Result<Reshape> {
    let place = |first: bool| if first { ([0], [3000]) } else { ([3000], [6000]) };
    let (held, wanted) = match communicator.rank() {
        0 => (place(true), place(false)),
        rank if rank == other => (place(false), place(true)),
        _ => (([0], [0]), ([0], [0])),
    };
    fn side((lower, upper): &([i64; 1], [i64; 1])) -> Side<'_> {
        Side { lower, upper, strides: None }
    }
    Reshape::make(communicator, Request::describe(4, side(&held), side(&wanted)), &Options::default())
}

fn execute_swap(reshape: &Reshape) -> Result<()> {
    let (input, mut output) = (vec![1u32; 3000], vec![0u32; 3000]);
    // SAFETY: both arrays hold their boxes.
    unsafe { reshape.exec(output.as_mut_ptr().cast(), input.as_ptr().cast(), null_mut(), None) }
}

/// Sets a fault of a rank, after so many calls that work.
type Break = fn(&Faults, u64);

const FOR_GOOD: u64 = u64::MAX;

fn panic_in_receive(faults: &Faults, works: u64) {
    faults.panics.store(true, Relaxed);
    faults.receive.set(works, FOR_GOOD);
}

/// Its own status, and after how many calls it fails.
const BREAKS: [(Status, Break); 6] = [
    // Once: else it could not tell the others.
    (Status::Transport, |faults, works| faults.send.set(works, 1)),
    (Status::Transport, |faults, works| faults.receive.set(works, FOR_GOOD)),
    (Status::Transport, |faults, works| faults.test.set(works, 1)),
    (Status::Transport, |faults, works| {
        faults.receive.set(works, FOR_GOOD);
        faults.cancel.set(0, FOR_GOOD);
    }),
    (Status::Transport, |faults, works| {
        faults.test.set(works, FOR_GOOD);
        faults.cancel.set(0, FOR_GOOD);
    }),
    (Status::Internal, panic_in_receive),
];

/// Waits until so many ranks have come back.
fn wait_for(ended: &AtomicUsize, ranks: usize) {
    while ended.load(Relaxed) < ranks {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_plan_s_peers_hear_of_the_end_wherever_they_are() {
    for (own, breaks) in BREAKS {
        for other in 1..6 {
            let (ended, started) = (AtomicUsize::new(0), Instant::now());
            let seen = on_faulty_nodes(&[0, 1, 2, 3, 4, 5], |comm, faults| {
                let rank = comm.rank();
                let reshape = swap(&comm, other).expect("made");
                if rank != 0 && rank != other {
                    // Does nothing meanwhile, so passes nothing on.
                    wait_for(&ended, 2);
                    return comm.barrier();
                }
                if rank == 0 {
                    breaks(faults, 0);
                }
                let told = execute_swap(&reshape);
                ended.fetch_add(1, Relaxed);
                wait_for(&ended, 2);
                told
            });
            let mut right = vec![Status::PeerLost; 6];
            right[0] = own;
            assert_eq!(statuses(&seen), right, "{other}: {seen:?}");
            assert!(started.elapsed() < Duration::from_secs(5), "{other}: {:?}", started.elapsed());
        }
    }
}

/// What a rank does next that could tell nobody of the end.
#[derive(Clone, Copy, Debug)]
enum Next {
    Barrier,
    Execute,
    Drop,
}

#[test]
fn who_cannot_tell_of_the_end_tells_it_later() {
    for (nodes, other, next) in [
        (&[0, 1][..], 1, Next::Barrier),
        (&[0, 1], 1, Next::Execute),
        (&[0, 1], 1, Next::Drop),
        (&[0, 1, 2, 3, 4, 5], 3, Next::Barrier),
        (&[0, 1, 2, 3, 4, 5], 3, Next::Execute),
        (&[0, 1, 2, 3, 4, 5], 3, Next::Drop),
    ] {
        let ended = AtomicUsize::new(0);
        let seen = on_faulty_nodes(nodes, |comm, faults| {
            let rank = comm.rank();
            let reshape = swap(&comm, other).expect("made");
            let mut told = Ok(());
            if rank == 0 {
                faults.send.set(0, FOR_GOOD);
                told = execute_swap(&reshape);
                // The other waits on, as nobody has told it.
                std::thread::sleep(Duration::from_millis(100));
                assert_eq!(ended.load(Relaxed), 0, "{next:?}");
                faults.send.set(0, 0);
                match next {
                    Next::Barrier => assert!(comm.barrier().is_err()),
                    Next::Execute => assert!(execute_swap(&reshape).is_err()),
                    Next::Drop => drop((reshape, comm)),
                }
                wait_for(&ended, 1);
            } else if rank == other {
                told = execute_swap(&reshape);
                ended.fetch_add(1, Relaxed);
            } else {
                wait_for(&ended, 1);
            }
            told
        });
        let seen = statuses(&seen);
        assert_eq!([seen[0], seen[other]], [Status::Transport, Status::PeerLost], "{next:?} {nodes:?}");
    }
}

#[test]
fn a_runtime_that_sends_nothing_any_more_leaves_nobody_waiting() {
    for sends in [0, 1, 3, 8, 21] {
        // Alone on its node the rank can tell nobody; else the one beside it does.
        for (nodes, timeout_ms) in [(&[0, 1, 2], 1000), (&[0, 1, 1], 0)] {
            let seen = on_faulty_nodes(nodes, |comm, faults| {
                if comm.rank() == 1 {
                    faults.send.set(sends, FOR_GOOD);
                }
                let options = Options { timeout_ms, exit_sync: ExitSync::Everyone, ..Options::default() };
                let reshape = shift(&comm, options)?;
                (0..50).try_for_each(|_| execute(&reshape, false, None))
            });
            assert_eq!(statuses(&seen)[1], Status::Transport, "{seen:?}");
            assert!(seen.iter().all(Result::is_err), "{seen:?}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Execute(ExitSync),
    Barrier,
    Make,
}

/// As the test below: rank 1 breaks in its phase.
fn break_in(phase: Phase, nodes: &[usize], breaks: Break, works: u64) -> Vec<Status> {
    let seen = on_faulty_nodes(nodes, |comm, faults| {
        let exit_sync = if let Phase::Execute(exit_sync) = phase { exit_sync } else { ExitSync::Input };
        let options = Options { exit_sync, ..Options::default() };
        let reshape = shift(&comm, options)?;
        if comm.rank() == 1 {
            breaks(faults, works);
        }
        // Often enough that nobody can be through before the others have failed.
        (0..50).try_for_each(|_| match phase {
            Phase::Execute(_) => execute(&reshape, false, None),
            Phase::Barrier => comm.barrier(),
            Phase::Make => shift(&comm, options).map(drop),
        })
    });
    statuses(&seen)
}

#[test]
fn a_runtime_that_fails_leaves_nobody_waiting_and_no_request_is_used_twice() {
    for phase in [Phase::Execute(ExitSync::Input), Phase::Execute(ExitSync::Everyone), Phase::Barrier, Phase::Make] {
        for (own, breaks) in BREAKS {
            // A panic of the runtime is caught in executions; in the other calls it ends the rank's thread.
            if own == Status::Internal && !matches!(phase, Phase::Execute(_)) {
                continue;
            }
            for works in [0, 1, 2, 5, 12] {
                for nodes in [[0, 1, 2], [0, 1, 0]] {
                    let seen = break_in(phase, &nodes, breaks, works);
                    assert_eq!(seen, [Status::PeerLost, own, Status::PeerLost], "{phase:?} {works} {nodes:?}");
                }
            }
        }
    }
}
