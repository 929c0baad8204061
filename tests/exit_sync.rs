//! What completion means when a rank cannot take part: who is told, and that everything works afterwards.

mod common;

use boxwise::plan::ExitSync;
use boxwise::{Communicator, Options, Request, Reshape, Side, Status};
use common::ranks;

const RANKS: usize = 4;

/// Every rank has two elements and wants the second of its left neighbour's and the first of its own, so that
/// ranks two apart exchange nothing; the last rank has no left neighbour.
fn shift(communicator: &Communicator, exit_sync: ExitSync) -> Reshape {
    let rank = communicator.rank() as i64;
    let held = Side { lower: &[2 * rank], upper: &[2 * rank + 2], strides: None };
    let wanted = Side { lower: &[(2 * rank - 1).max(0)], upper: &[2 * rank + 1], strides: None };
    let options = Options { exit_sync, ..Options::default() };
    Reshape::make(communicator, Request::describe(4, held, wanted), &options).unwrap()
}

/// The statuses of one execution in which that rank, if any, passes no output.
fn execute(reshape: &Reshape, rank: usize, faulty: Option<usize>) -> Status {
    let input = [2 * rank as u32, 2 * rank as u32 + 1];
    let mut output = [99u32; 2];
    let out = if faulty == Some(rank) { std::ptr::null_mut() } else { output.as_mut_ptr().cast() };
    // SAFETY: both arrays hold their boxes, or are NULL, which is told.
    let result = unsafe { reshape.exec(out, input.as_ptr().cast(), std::ptr::null_mut(), None) };
    if let Err(error) = &result {
        let guilty = faulty.expect("nobody is at fault");
        assert!(error.detail.contains(&format!("rank {guilty}")), "{error}");
    } else {
        let first = (2 * rank as u32).saturating_sub(1);
        let right = if rank == 0 { [0, 99] } else { [first, first + 1] };
        assert_eq!(output, right, "rank {rank}");
    }
    result.map_or_else(|error| error.status, |()| Status::Success)
}

/// The statuses on all ranks of executions with these faulty ranks, one after the other.
fn statuses(exit_sync: ExitSync, faulty: &[Option<usize>]) -> Vec<Vec<Status>> {
    let by_rank = ranks::in_threads(RANKS, |communicator| {
        let reshape = shift(&communicator, exit_sync);
        faulty.iter().map(|&faulty| execute(&reshape, communicator.rank(), faulty)).collect::<Vec<_>>()
    });
    (0..faulty.len()).map(|i| by_rank.iter().map(|statuses| statuses[i]).collect()).collect()
}

#[test]
fn with_exit_sync_of_everyone_a_fault_is_everyones() {
    use Status::{InvalidArgument as Bad, Success as Good};
    for _ in 0..20 {
        let seen = statuses(ExitSync::Everyone, &[None, Some(3), None, Some(0), Some(1), Some(1), None]);
        let right = [[Good; 4], [Bad; 4], [Good; 4], [Bad; 4], [Bad; 4], [Bad; 4], [Good; 4]];
        assert_eq!(seen, right.map(Vec::from));
    }
}

#[test]
fn otherwise_a_fault_is_that_of_the_ranks_it_touches() {
    use Status::{InvalidArgument as Bad, Success as Good};
    for exit_sync in [ExitSync::Output, ExitSync::Input] {
        for _ in 0..20 {
            let seen = statuses(exit_sync, &[Some(3), Some(3), Some(3), Some(0), None]);
            let last = [Good, Good, Bad, Bad];
            let right = [last, last, last, [Bad, Bad, Good, Good], [Good; 4]];
            assert_eq!(seen, right.map(Vec::from));
        }
    }
}
