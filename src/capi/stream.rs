//! Host streams: queues of operations, each run in order by a thread of its own.

use super::boundary::{Output, call};
use super::handle::{self, Kind, Object};
use super::status::boxwise_status_t;
use crate::exec::Stream;
use crate::log;

/// What a stream handle points to; its inside is private.
pub enum boxwise_stream {}
/// A queue of operations on host memory. Made by boxwise_stream_create, ended by boxwise_stream_destroy.
pub type boxwise_stream_t = *mut boxwise_stream;

impl Object for Stream {
    const KIND: Kind = Kind::Stream;
}

/// Makes a host stream: operations passed to it run in order, on a thread of its own, while the caller goes on.
///
/// - stream: where the handle goes; not NULL.
///
/// Not collective; any thread. Statuses: INVALID_ARGUMENT, OUT_OF_MEMORY, TRANSPORT (no thread to be had).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_stream_create(stream: *mut boxwise_stream_t) -> boxwise_status_t {
    log::start();
    call("boxwise_stream_create", || {
        // SAFETY: the header asks for a place for the output.
        let output = unsafe { Output::new("stream", stream) }?;
        output.write(handle::insert(Stream::new()?)?);
        Ok(())
    })
}

/// Returns when all operations queued so far have ended.
///
/// Not collective; any thread. Statuses: INVALID_ARGUMENT, INVALID_STATE (destroyed), and the status of the
/// first queued operation that failed since the last call, with its detail as boxwise_last_error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_stream_synchronize(stream: boxwise_stream_t) -> boxwise_status_t {
    call("boxwise_stream_synchronize", || handle::get::<Stream, _>("stream", stream)?.synchronize())
}

/// Tells without waiting whether all operations queued so far have ended.
///
/// - idle: receives 1 when they have, 0 while one is queued or running; not NULL. Failures of operations are
///   told by boxwise_stream_synchronize only.
///
/// Not collective; any thread. Statuses: INVALID_ARGUMENT, INVALID_STATE (destroyed).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_stream_query(stream: boxwise_stream_t, idle: *mut i32) -> boxwise_status_t {
    call("boxwise_stream_query", || {
        let stream = handle::get::<Stream, _>("stream", stream)?;
        // SAFETY: the header asks for a place for the output.
        let output = unsafe { Output::new("idle", idle) }?;
        output.write(stream.is_idle().into());
        Ok(())
    })
}

/// Waits for all queued operations and ends the stream. The handle is gone whatever the status says.
///
/// - stream: may be NULL, then nothing happens.
///
/// Not collective; any thread, but no other call may be using the stream. Statuses: as boxwise_stream_synchronize,
/// so that no failure gets lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_stream_destroy(stream: boxwise_stream_t) -> boxwise_status_t {
    call("boxwise_stream_destroy", || match stream.is_null() {
        true => Ok(()),
        false => handle::remove::<Stream, _>("stream", stream)?.synchronize(),
    })
}
