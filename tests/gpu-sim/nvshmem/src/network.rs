//! The way to PEs whose memory is not mapped: operations are queued, and delivered late, one by one, in any order that
//! fences allow. A put reads its source when it is delivered, and its signal follows its data.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is to be done in the memory of another PE, at addresses mapped here.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Copy { from: u64, to: u64, bytes: usize },
    Set { to: u64, value: u64 },
    Add { to: u64, value: u64 },
}

#[derive(Debug)]
struct Parcel {
    operations: VecDeque<Operation>,
    /// Parcels of an earlier number come first.
    fences: u64,
}

#[derive(Debug)]
struct State {
    parcels: Vec<Parcel>,
    fences: u64,
    dice: u64,
    running: bool,
}

static STATE: Mutex<State> = Mutex::new(State { parcels: Vec::new(), fences: 0, dice: 0, running: false });
static CHANGED: Condvar = Condvar::new();
const CHUNK: usize = 1000;
/// Microseconds between two deliveries, at most.
const LONGEST_DELAY: u64 = 120;

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends operations that are done in this order, among each other.
pub fn send(operations: Vec<Operation>) {
    let mut state = state();
    if !state.running {
        state.running = true;
        state.dice = number("GPU_SIM_SEED").unwrap_or(1).wrapping_mul(77) | 1;
        let longest_delay = number("GPU_SIM_DELAY").unwrap_or(LONGEST_DELAY);
        std::thread::spawn(move || deliver(longest_delay));
    }
    let fences = state.fences;
    state.parcels.push(Parcel { operations: operations.into(), fences });
    CHANGED.notify_all();
}

/// What is sent from now on comes after what was sent before.
pub fn fence() {
    state().fences += 1;
}

/// Whether everything has been delivered.
pub fn is_quiet() -> bool {
    state().parcels.is_empty()
}

/// Waits for that.
pub fn quiet() {
    let mut state = state();
    while !state.parcels.is_empty() {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn roll(dice: &mut u64, count: u64) -> u64 {
    *dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*dice >> 33) % count
}

fn deliver(longest_delay: u64) {
    loop {
        let mut state = state();
        while state.parcels.is_empty() {
            state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let State { parcels, dice, .. } = &mut *state;
        let first = parcels.iter().map(|parcel| parcel.fences).min().expect("there are some");
        let candidates: Vec<usize> = (0..parcels.len()).filter(|at| parcels[*at].fences == first).collect();
        let chosen = candidates[roll(dice, candidates.len() as u64) as usize];
        let delay = roll(dice, longest_delay);
        // One piece of it at a time: others come between.
        let step = match parcels[chosen].operations.front_mut() {
            Some(Operation::Copy { from, to, bytes }) if *bytes > CHUNK => {
                let step = Operation::Copy { from: *from, to: *to, bytes: CHUNK };
                (*from, *to, *bytes) = (*from + CHUNK as u64, *to + CHUNK as u64, *bytes - CHUNK);
                Some(step)
            }
            _ => parcels[chosen].operations.pop_front(),
        };
        // Done while the state is held, so that nothing is quiet before it is done.
        if let Some(step) = step {
            perform(step);
        }
        if state.parcels[chosen].operations.is_empty() {
            state.parcels.swap_remove(chosen);
            CHANGED.notify_all();
        }
        drop(state);
        std::thread::sleep(Duration::from_micros(delay));
    }
}

fn perform(operation: Operation) {
    // SAFETY: the addresses were checked when it was sent; heaps are never unmapped. Signals are words used as atomics.
    unsafe {
        match operation {
            Operation::Copy { from, to, bytes } => {
                std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes);
            }
            Operation::Set { to, value } => (*(to as *const AtomicU64)).store(value, Ordering::SeqCst),
            Operation::Add { to, value } => {
                (*(to as *const AtomicU64)).fetch_add(value, Ordering::SeqCst);
            }
        }
    }
}
