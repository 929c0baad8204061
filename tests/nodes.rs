//! Ranks on several nodes, here pretended: what is theirs alone. Faults reach everyone who waits, tags are never used
//! twice at a time, and what a runtime does not offer is told.

mod common;

use boxwise::plan::ExitSync;
use boxwise::{Boot, Communicator, Error, Options, Reshape, Result, Status, Stream};
use common::boots::{ThreadBoot, group, group_on_nodes};
use common::nodes::{execute, execute_from, input_of, on_nodes, shift, statuses, unchanged};
use common::ranks::together;

use Status::{InvalidArgument as Bad, Success as Good};

#[test]
fn a_fault_reaches_who_waits_for_the_data_or_everyone_where_that_is_asked() {
    for nodes in [&[0, 1, 2, 3][..], &[0, 0, 1, 1], &[0, 1, 0, 1]] {
        for (exit_sync, right) in
            [(ExitSync::Everyone, [Bad, Bad, Bad, Bad]), (ExitSync::Output, [Good, Bad, Bad, Good])]
        {
            let seen = on_nodes(nodes, unchanged, |comm| {
                let reshape = shift(&comm, Options { exit_sync, ..Options::default() }).expect("made");
                let input = input_of(&reshape);
                let execute = |is_faulty| execute_from(&input, &reshape, is_faulty, None);
                (0..3).try_for_each(|_| execute(false))?;
                let told = (0..3).map(|_| execute(comm.rank() == 1)).collect::<Vec<_>>();
                execute(false)?;
                comm.barrier()?;
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
