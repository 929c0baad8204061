//! Graphs: what a stream recorded, launched again and again.

use crate::error::{INVALID_VALUE, SUCCESS};
use crate::stream::{self, Task};
use crate::{Handle, Status};
use std::ffi::c_ulonglong;

/// A graph, or one that is ready to run.
struct Graph(Vec<Task>);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> Status {
    let Some(tasks) = stream::end_capture(stream) else { return INVALID_VALUE };
    // SAFETY: as the driver's interface says, here and below.
    unsafe { graph.write(Box::into_raw(Box::new(Graph(tasks))).cast()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(ready: *mut Handle, graph: Handle, _flags: c_ulonglong) -> Status {
    // SAFETY: as above.
    unsafe {
        let tasks = (*graph.cast::<Graph>()).0.clone();
        ready.write(Box::into_raw(Box::new(Graph(tasks))).cast());
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(ready: Handle, stream: Handle) -> Status {
    // SAFETY: as above.
    let tasks = unsafe { &(*ready.cast::<Graph>()).0 };
    tasks.iter().map(|task| stream::push(stream, task.clone())).find(|status| *status != SUCCESS).unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDestroy(graph: Handle) -> Status {
    // SAFETY: as above: it is one of ours, and not used again.
    drop(unsafe { Box::from_raw(graph.cast::<Graph>()) });
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecDestroy(ready: Handle) -> Status {
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(ready.cast::<Graph>()) });
    SUCCESS
}
