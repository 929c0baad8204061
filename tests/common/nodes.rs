//! Ranks as threads on pretended nodes, and what most tests have them do.

use super::boots::{Faults, ThreadBoot, group_on_nodes};
use super::ranks::together;
use boxwise::{Communicator, Options, Request, Reshape, Result, Side, Status, Stream};
use std::ptr::null_mut;
use std::sync::Arc;

/// Runs `play` on every rank of a new communicator, which `change` may have given another runtime.
pub fn on_nodes<T: Send>(
    nodes: &[usize],
    change: impl Fn(&mut ThreadBoot),
    play: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let mut boots = group_on_nodes(nodes);
    boots.iter_mut().for_each(change);
    seat(boots, |comm, _| play(comm))
}

/// The same where a rank gives its runtime faults on the way.
pub fn on_faulty_nodes<T: Send>(nodes: &[usize], play: impl Fn(Communicator, &Faults) -> T + Sync) -> Vec<T> {
    seat(group_on_nodes(nodes), play)
}

fn seat<T: Send>(boots: Vec<ThreadBoot>, play: impl Fn(Communicator, &Faults) -> T + Sync) -> Vec<T> {
    let play = &play;
    let member = |boot: ThreadBoot| {
        move || {
            let faults = Arc::clone(&boot.faults);
            play(Communicator::from_boot(Box::new(boot)).expect("a communicator"), &faults)
        }
    };
    together(boots.into_iter().map(member).collect())
}

pub fn unchanged(_: &mut ThreadBoot) {}

/// Every rank gives what it has to its right neighbour, the last to the first.
pub fn shift(communicator: &Communicator, options: Options) -> Result<Reshape> {
    const COUNT: i64 = 3000;
    let (rank, size) = (communicator.rank() as i64, communicator.size() as i64);
    let left = (rank + size - 1) % size;
    let held = Side { lower: &[COUNT * rank], upper: &[COUNT * (rank + 1)], strides: None };
    let wanted = Side { lower: &[COUNT * left], upper: &[COUNT * (left + 1)], strides: None };
    Reshape::make(communicator, Request::describe(4, held, wanted), &options)
}

/// What this rank gives in a shift.
pub fn input_of(reshape: &Reshape) -> Vec<u32> {
    let count = reshape.info().bytes_sent as usize / 4;
    (0..count).map(|i| (reshape.info().rank * count + i) as u32).collect()
}

/// One execution of a shift; a rank at fault passes no output.
pub fn execute(reshape: &Reshape, is_faulty: bool, stream: Option<&Stream>) -> Result<()> {
    execute_from(&input_of(reshape), reshape, is_faulty, stream)
}

/// The same where peers may still read the input afterwards.
pub fn execute_from(input: &[u32], reshape: &Reshape, is_faulty: bool, stream: Option<&Stream>) -> Result<()> {
    let (count, rank, size) = (input.len(), reshape.info().rank, reshape.info().size);
    let mut output = vec![u32::MAX; count];
    let out = if is_faulty { null_mut() } else { output.as_mut_ptr().cast() };
    // SAFETY: both arrays hold their boxes, or are NULL, which is told.
    unsafe { reshape.exec(out, input.as_ptr().cast(), null_mut(), stream) }?;
    stream.map_or(Ok(()), Stream::synchronize)?;
    let first = ((rank + size - 1) % size * count) as u32;
    assert!(output.iter().zip(first..).all(|(&got, right)| got == right), "rank {rank}");
    Ok(())
}

pub fn statuses<T>(results: &[Result<T>]) -> Vec<Status> {
    let status = |result: &Result<T>| result.as_ref().err().map_or(Status::Success, |error| error.status);
    results.iter().map(status).collect()
}
