//! Ranks on several nodes, here pretended: what is theirs alone. Faults, lost ranks and failing messages reach everyone
//! who waits, tags are never used twice at a time, and what a runtime does not offer is told.

mod common;

use boxwise::plan::ExitSync;
use boxwise::{Boot, Communicator, Error, Options, Request, Reshape, Result, Side, Status, Stream};
use common::boots::{Faults, ThreadBoot, group, group_on_nodes};
use common::ranks::together;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Runs `play` on every rank of a new communicator, which `change` may have given another runtime.
fn on_nodes<T: Send>(
    nodes: &[usize],
    change: impl Fn(&mut ThreadBoot),
    play: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let mut boots = group_on_nodes(nodes);
    boots.iter_mut().for_each(change);
    let play = &play;
    let member = |boot| move || play(Communicator::from_boot(Box::new(boot)).expect("a communicator"));
    together(boots.into_iter().map(member).collect())
}

fn unchanged(_: &mut ThreadBoot) {}

/// Every rank gives what it has to its right neighbour, the last to the first.
fn shift(communicator: &Communicator, options: Options) -> Result<Reshape> {
    const COUNT: i64 = 3000;
    let (rank, size) = (communicator.rank() as i64, communicator.size() as i64);
    let left = (rank + size - 1) % size;
    let held = Side { lower: &[COUNT * rank], upper: &[COUNT * (rank + 1)], strides: None };
    let wanted = Side { lower: &[COUNT * left], upper: &[COUNT * (left + 1)], strides: None };
    Reshape::make(communicator, Request::describe(4, held, wanted), &options)
}

/// One execution; a rank at fault passes no output.
fn execute(reshape: &Reshape, is_faulty: bool, stream: Option<&Stream>) -> Result<()> {
    let count = reshape.info().bytes_received as usize / 4;
    let (rank, size) = (reshape.info().rank, reshape.info().size);
    let input: Vec<u32> = (0..count).map(|i| (rank * count + i) as u32).collect();
    let mut output = vec![u32::MAX; count];
    let out = if is_faulty { null_mut() } else { output.as_mut_ptr().cast() };
    // SAFETY: both arrays hold their boxes, or are NULL, which is told.
    unsafe { reshape.exec(out, input.as_ptr().cast(), null_mut(), stream) }?;
    stream.map_or(Ok(()), Stream::synchronize)?;
    let first = ((rank + size - 1) % size * count) as u32;
    assert!(output.iter().zip(first..).all(|(&got, right)| got == right), "rank {rank}");
    Ok(())
}

fn statuses<T>(results: &[Result<T>]) -> Vec<Status> {
    let status = |result: &Result<T>| result.as_ref().err().map_or(Status::Success, |error| error.status);
    results.iter().map(status).collect()
}

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

use Status::{InvalidArgument as Bad, Success as Good};

#[test]
fn a_fault_reaches_who_waits_for_the_data_or_everyone_where_that_is_asked() {
    for nodes in [&[0, 1, 2, 3][..], &[0, 0, 1, 1], &[0, 1, 0, 1]] {
        for (exit_sync, right) in
            [(ExitSync::Everyone, [Bad, Bad, Bad, Bad]), (ExitSync::Output, [Good, Bad, Bad, Good])]
        {
            let seen = on_nodes(nodes, unchanged, |comm| {
                let reshape = shift(&comm, Options { exit_sync, ..Options::default() }).expect("made");
                for _ in 0..3 {
                    execute(&reshape, false, None)?;
                }
                let told = (0..3).map(|_| execute(&reshape, comm.rank() == 1, None)).collect::<Vec<_>>();
                execute(&reshape, false, None)?;
                assert!(told.iter().all(|result| statuses(std::slice::from_ref(result)) == statuses(&told[..1])));
                Ok::<_, Error>(told[0].clone())
            });
            let seen: Vec<Result<()>> = seen.into_iter().map(|result| result.expect("before and after")).collect();
            let mut seen = statuses(&seen);
            if exit_sync == ExitSync::Output && nodes[0] == nodes[1] {
                // On its own node who sends to the faulty rank is told as well.
                assert_eq!(std::mem::replace(&mut seen[0], Good), Bad);
            }
            assert_eq!(seen, right, "nodes {nodes:?}, {exit_sync:?}");
        }
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
    for late_send in 0..14 {
        let late = |boot: &mut ThreadBoot| boot.late_send = (boot.rank() == 2).then_some(late_send);
        let seen = on_nodes(&[0, 0, 1, 1], late, |comm| comm.barrier());
        assert_eq!(statuses(&seen), [Good; 4], "barrier, late send {late_send}");
        let seen = on_nodes(&[0, 0, 1, 1], late, |comm| {
            let reshape = shift(&comm, Options { exit_sync: ExitSync::Everyone, ..Options::default() })?;
            execute(&reshape, false, None)
        });
        assert_eq!(statuses(&seen), [Good; 4], "exit sync 2, late send {late_send}");
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

#[test]
fn a_plan_s_peers_hear_of_the_end_wherever_they_are() {
    for other in 1..6 {
        let boots = group_on_nodes(&[0, 1, 2, 3, 4, 5]);
        let ended = AtomicUsize::new(0);
        let ended = &ended;
        let member = |boot: ThreadBoot| {
            move || {
                let (rank, faults) = (boot.rank(), Arc::clone(&boot.faults));
                let comm = Communicator::from_boot(Box::new(boot))?;
                let reshape = swap(&comm, other)?;
                if rank != 0 && rank != other {
                    // Does nothing meanwhile, so passes nothing on.
                    while ended.load(Relaxed) < 2 {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    return Ok(());
                }
                faults.receive.store(rank == 0, Relaxed);
                let told = execute_swap(&reshape);
                faults.receive.store(false, Relaxed);
                ended.fetch_add(1, Relaxed);
                told
            }
        };
        let seen = statuses(&together(boots.into_iter().map(member).collect()));
        assert_eq!((seen[0], seen[other]), (Status::Transport, Status::PeerLost), "{seen:?}");
    }
}

#[test]
fn who_cannot_tell_of_the_end_tells_it_later() {
    for ends_by_a_call in [true, false] {
        let member = |boot: ThreadBoot| {
            move || {
                let (rank, faults) = (boot.rank(), Arc::clone(&boot.faults));
                let comm = Communicator::from_boot(Box::new(boot))?;
                let reshape = shift(&comm, Options::default())?;
                faults.send.store(rank == 0, Relaxed);
                let told = execute(&reshape, false, None);
                faults.send.store(false, Relaxed);
                if ends_by_a_call {
                    assert!(rank != 0 || comm.barrier().is_err());
                    // Nothing ends before the other has heard of it.
                    std::mem::forget((comm, reshape));
                }
                told
            }
        };
        let seen = together(group_on_nodes(&[0, 1]).into_iter().map(member).collect());
        assert_eq!(statuses(&seen), [Status::Transport, Status::PeerLost], "{seen:?}");
    }
}

#[test]
fn different_calls_that_meet_are_told_and_can_go_on() {
    for nodes in [&[0, 1][..], &[0, 1, 2], &[0, 0, 1], &[0, 1, 2, 3, 4, 5, 6]] {
        for guilty in 0..nodes.len() {
            let seen = on_nodes(nodes, unchanged, |comm| {
                let told = if comm.rank() == guilty { comm.allocate(100).map(drop) } else { comm.barrier() };
                comm.barrier().expect("the next call works");
                drop(comm.allocate(100).expect("and the next"));
                told
            });
            assert_eq!(statuses(&seen), vec![Status::InvalidState; nodes.len()]);
            let named =
                seen.iter().all(|result| result.as_ref().is_err_and(|e| e.detail.contains(&format!("{guilty}"))));
            assert!(named, "{seen:?}");
        }
    }
}

#[test]
fn tags_serve_one_plan_at_a_time_and_come_back() {
    // Tags for four plans.
    let few = |boot: &mut ThreadBoot| boot.most_tag = 9;
    let seen = on_nodes(&[0, 1, 2], few, |comm| {
        let options = Options::default();
        let long_lived = shift(&comm, options)?;
        let mut late = Vec::new();
        for round in 0..60 {
            let reshape = shift(&comm, options)?;
            execute(&reshape, false, None)?;
            execute(&long_lived, false, None)?;
            // The ranks destroy theirs at different times.
            late.push(reshape);
            if late.len() > (round + comm.rank()) % 3 {
                late.remove(0);
            }
            if late.len() == 3 {
                late.clear();
            }
        }
        late.clear();
        let mut all: Vec<Reshape> = (0..3).map(|_| shift(&comm, options)).collect::<Result<_>>()?;
        let one_more = shift(&comm, options).map(drop);
        assert_eq!(statuses(&[one_more]), [Status::OutOfMemory]);
        all.remove(comm.rank());
        all.remove(0);
        comm.barrier()?;
        // Each rank has freed others: one is free on all.
        all.clear();
        execute(&shift(&comm, options)?, false, None)?;
        execute(&long_lived, false, None)
    });
    assert_eq!(statuses(&seen), [Good; 3], "{seen:?}");
}

#[test]
fn several_nodes_need_messages() {
    // On two nodes by their names, but with a runtime that cannot send.
    let mut boots = group(3);
    boots.iter_mut().for_each(|boot| boot.node = boot.rank() % 2);
    let member = |boot: ThreadBoot| move || Communicator::from_boot(Box::new(boot)).map(drop);
    let seen = together(boots.into_iter().map(member).collect());
    assert_eq!(statuses(&seen), [Status::NotSupported; 3]);
    assert!(seen[2].as_ref().is_err_and(|error| error.detail.contains("ranks 0 and 1")), "{seen:?}");
}

#[test]
fn one_rank_without_messages_is_told_to_all() {
    for silent in 0..3 {
        let mut boots = group_on_nodes(&[0, 1, 1]);
        boots[silent].silence();
        let member = |boot: ThreadBoot| move || Communicator::from_boot(Box::new(boot)).map(drop);
        let seen = together(boots.into_iter().map(member).collect());
        assert_eq!(statuses(&seen), [Status::NotSupported; 3]);
        let named = format!("rank {silent} has none");
        assert!(
            seen.iter().all(|result| result.as_ref().is_err_and(|error| error.detail.contains(&named))),
            "{seen:?}"
        );
    }
}

#[test]
fn the_least_of_all_largest_tags_counts() {
    let different = |boot: &mut ThreadBoot| boot.most_tag = 9 + 6 * boot.rank() as i32;
    let seen = on_nodes(&[0, 1], different, |comm| {
        (0..10).try_for_each(|_| execute(&shift(&comm, Options::default())?, false, None))
    });
    assert_eq!(statuses(&seen), [Good; 2], "{seen:?}");
}

#[test]
fn a_stream_needs_messages_from_any_thread() {
    let main_only = |boot: &mut ThreadBoot| boot.any_thread = false;
    let seen = on_nodes(&[0, 1, 1], main_only, |comm| {
        let stream = Stream::new()?;
        let reshape = shift(&comm, Options::default())?;
        execute(&reshape, false, None)?;
        let refused = execute(&reshape, false, Some(&stream)).expect_err("refused");
        assert!(refused.status == Status::NotSupported && refused.detail.contains("MPI_THREAD_MULTIPLE"), "{refused}");
        stream.synchronize()?;
        execute(&reshape, false, None)
    });
    assert_eq!(statuses(&seen), [Good; 3], "{seen:?}");
}

#[test]
fn a_runtime_that_fails_leaves_nobody_waiting() {
    for sends in [0, 1, 3, 8, 21] {
        // Alone on its node the rank can tell nobody; else the one beside it does.
        for (nodes, timeout_ms) in [(&[0, 1, 2], 1000), (&[0, 1, 1], 0)] {
            let fails = |boot: &mut ThreadBoot| boot.sends_left = if boot.rank() == 1 { sends } else { u64::MAX };
            let seen = on_nodes(nodes, fails, |comm| {
                let options = Options { timeout_ms, exit_sync: ExitSync::Everyone, ..Options::default() };
                let reshape = shift(&comm, options)?;
                (0..50).try_for_each(|_| execute(&reshape, false, None))
            });
            assert_eq!(statuses(&seen)[1], Status::Transport, "{seen:?}");
            assert!(seen.iter().all(Result::is_err), "{seen:?}");
        }
    }
}

/// Sets a fault of a rank.
type Breaks = fn(&Faults);

#[test]
fn a_fault_in_any_call_of_the_runtime_is_told_to_all_and_no_request_is_used_twice() {
    let breaks: [Breaks; 4] = [
        |faults| faults.receive.store(true, Relaxed),
        |faults| faults.test.store(true, Relaxed),
        |faults| [&faults.test, &faults.cancel].map(|fault| fault.store(true, Relaxed)).into_iter().collect(),
        |faults| [&faults.receive, &faults.cancel].map(|fault| fault.store(true, Relaxed)).into_iter().collect(),
    ];
    for breaks in breaks {
        for nodes in [&[0, 1, 2][..], &[0, 1, 1]] {
            for in_barrier in [false, true] {
                let member = |boot: ThreadBoot| {
                    move || {
                        let (rank, faults) = (boot.rank(), Arc::clone(&boot.faults));
                        let comm = Communicator::from_boot(Box::new(boot))?;
                        let reshape = shift(&comm, Options { exit_sync: ExitSync::Everyone, ..Options::default() })?;
                        execute(&reshape, false, None)?;
                        if rank == 1 {
                            breaks(&faults);
                        }
                        match in_barrier {
                            true => comm.barrier(),
                            false => execute(&reshape, false, None),
                        }
                    }
                };
                let seen = together(group_on_nodes(nodes).into_iter().map(member).collect());
                let [first, guilty, last] = statuses(&seen)[..] else { unreachable!("three ranks") };
                assert_eq!(guilty, Status::Transport, "{nodes:?} {in_barrier} {seen:?}");
                // A rank that has all that it needs for a barrier is through.
                let lost = |status| status == Status::PeerLost || in_barrier && status == Good;
                assert!(lost(first) && lost(last), "{nodes:?} {in_barrier} {seen:?}");
            }
        }
    }
}
