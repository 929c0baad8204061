//! One block: its threads, and where they meet: barriers, warps, and calls that a block makes together.

use crate::fault::{Fault, Kind};
use crate::instruction::{Op, Operand, Shuffle, Vote};
use crate::machine::Answer;
use crate::memory::{Shared, Wrong};
use crate::thread::{At, Launched, State, Step, Thread, WARP};

/// Barriers of a block.
const BARRIERS: usize = 16;

/// A block that has begun.
#[derive(Debug)]
pub struct Block {
    pub threads: Vec<Thread>,
    /// Those that can go on.
    pub ready: Vec<u32>,
    pub shared: Shared,
    live: usize,
    /// How many threads wait at each barrier.
    arrived: [usize; BARRIERS],
    /// All have made a call together that is not answered yet.
    pub has_asked: bool,
}

impl Block {
    pub fn new(launched: &Launched, kernel: u32, index: [u32; 3], shared_bytes: usize, parameters: &[u8]) -> Block {
        let count = launched.block_threads();
        Block {
            threads: (0..count).map(|number| Thread::new(launched, kernel, index, number, parameters)).collect(),
            ready: (0..count).collect(),
            shared: Shared::new(shared_bytes),
            live: count as usize,
            arrived: [0; BARRIERS],
            has_asked: false,
        }
    }

    pub fn is_done(&self) -> bool {
        self.live == 0
    }

    /// Runs at most so many instructions of the thread at this place of the list of those that are ready.
    pub fn run(&mut self, launched: &Launched, place: usize, most: u64, steps: &mut u64) -> Result<Step, Fault> {
        let number = self.ready[place];
        let mut outcome = Step::Silent;
        for _ in 0..most {
            *steps += 1;
            let step = self.threads[number as usize].step(launched, &mut self.shared);
            match step.map_err(|wrong| self.fault(launched, number, wrong))? {
                Step::Silent => {}
                Step::Seen => outcome = Step::Seen,
                Step::Waits => return Ok(if outcome == Step::Seen { outcome } else { Step::Waits }),
                Step::Meets(state) => {
                    self.ready.swap_remove(place);
                    self.threads[number as usize].state = state;
                    self.live -= (state == State::Done) as usize;
                    self.meet(launched, number)?;
                    return Ok(Step::Seen);
                }
            }
        }
        Ok(outcome)
    }

    /// A thread has begun to wait, or is done: perhaps others can go on.
    fn meet(&mut self, launched: &Launched, number: u32) -> Result<(), Fault> {
        match self.threads[number as usize].state {
            State::Ready => {}
            State::Barrier { id, .. } if id >= BARRIERS as u64 => {
                return Err(self.fault(launched, number, (Kind::Unknown, format!("barrier {id} of {BARRIERS}"))));
            }
            State::Barrier { id, .. } => {
                self.arrived[id as usize] += 1;
                self.try_barrier(launched, id as usize)?;
            }
            State::Warp { .. } => self.try_warp(launched, number / WARP)?,
            State::Call => self.has_asked = self.all_call(launched)?,
            State::Done => {
                for id in 0..BARRIERS {
                    self.try_barrier(launched, id)?;
                }
                self.try_warp(launched, number / WARP)?;
                self.has_asked = self.has_asked || self.all_call(launched)?;
            }
        }
        if self.ready.is_empty() && self.live > 0 && !self.has_asked {
            return Err(self.deadlock(launched));
        }
        Ok(())
    }

    fn waiting(&self, is: impl Fn(State) -> bool) -> Vec<u32> {
        self.threads.iter().filter(|thread| is(thread.state)).map(|thread| thread.number).collect()
    }

    fn release(&mut self, numbers: &[u32]) {
        for &number in numbers {
            let thread = &mut self.threads[number as usize];
            thread.state = State::Ready;
            thread.advance();
        }
        self.ready.extend(numbers);
    }

    /// Where these threads are, if that is one place.
    fn common_place(&self, numbers: &[u32]) -> Option<At> {
        let first = self.threads[*numbers.first()? as usize].at();
        numbers.iter().all(|number| self.threads[*number as usize].at() == first).then_some(first)
    }

    fn try_barrier(&mut self, launched: &Launched, id: usize) -> Result<(), Fault> {
        if self.arrived[id] == 0 {
            return Ok(());
        }
        let is_here = |state| matches!(state, State::Barrier { id: other, .. } if other == id as u64);
        let first = self.threads.iter().find(|thread| is_here(thread.state)).expect("one has arrived");
        let State::Barrier { threads, .. } = first.state else { return Ok(()) };
        if self.arrived[id] < threads.map_or(self.live, |threads| threads as usize) {
            return Ok(());
        }
        let (first, waiting) = (first.number, self.waiting(is_here));
        if self.common_place(&waiting).is_none() {
            let what = format!("threads meet at different barriers of number {id}: {}", self.places(launched));
            return Err(self.fault(launched, first, (Kind::Deadlock, what)));
        }
        self.arrived[id] = 0;
        self.release(&waiting);
        Ok(())
    }

    fn try_warp(&mut self, launched: &Launched, warp: u32) -> Result<(), Fault> {
        let lanes = || (warp * WARP..).take(WARP as usize).take_while(|number| (*number as usize) < self.threads.len());
        for first in lanes() {
            let State::Warp { members } = self.threads[first as usize].state else { continue };
            let at = self.threads[first as usize].at();
            let members: Vec<u32> = lanes().filter(|number| members >> (number % WARP) & 1 == 1).collect();
            let living = |number: &u32| self.threads[*number as usize].state != State::Done;
            let members: Vec<u32> = members.into_iter().filter(living).collect();
            let is_here = |number: &u32| {
                let thread = &self.threads[*number as usize];
                matches!(thread.state, State::Warp { .. }) && thread.at() == at
            };
            if members.contains(&first) && members.iter().all(is_here) {
                self.exchange(launched, &members);
                self.release(&members);
                return self.try_warp(launched, warp);
            }
        }
        Ok(())
    }

    /// What the lanes of a warp do together.
    fn exchange(&mut self, launched: &Launched, members: &[u32]) {
        let Some(instruction) = self.threads[members[0] as usize].instruction(launched) else { return };
        let values = |block: &Block, operand: Operand| -> Vec<u64> {
            members.iter().map(|number| block.threads[*number as usize].value(launched, operand)).collect()
        };
        match &instruction.op {
            Op::Vote { what, to, value, .. } => {
                let held: Vec<bool> = values(self, *value).iter().map(|value| value & 1 == 1).collect();
                let result = match what {
                    Vote::All => held.iter().all(|held| *held) as u64,
                    Vote::Any => held.iter().any(|held| *held) as u64,
                    Vote::Uniform => held.iter().all(|one| *one == held[0]) as u64,
                    Vote::Ballot => {
                        members.iter().zip(&held).fold(0, |all, (number, held)| all | (*held as u64) << (number % WARP))
                    }
                };
                members.iter().for_each(|number| self.threads[*number as usize].set(*to, result));
            }
            Op::Shuffle { what, to, valid, value, lane, clamp, .. } => {
                let given = values(self, *value);
                let (by, clamp) = (values(self, *lane), values(self, *clamp));
                for (index, &number) in members.iter().enumerate() {
                    let (from, reached) = source_lane(*what, number % WARP, by[index] as u32, clamp[index] as u32);
                    let other = members.iter().position(|member| member % WARP == from);
                    let thread = &mut self.threads[number as usize];
                    thread.set(*to, given[other.unwrap_or(index)] & u32::MAX as u64);
                    if let Some(valid) = valid {
                        thread.set(*valid, reached as u64);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether the whole block makes this call, alike.
    fn all_call(&self, launched: &Launched) -> Result<bool, Fault> {
        if !self.ready.is_empty() {
            return Ok(false);
        }
        let callers = self.waiting(|state| state == State::Call);
        if callers.len() < self.live || callers.is_empty() {
            return Ok(false);
        }
        let first = callers[0];
        let wrong = |what: &str| {
            Err(self.fault(
                launched,
                first,
                (Kind::Deadlock, format!("a call of the whole block {what}: {}", self.places(launched))),
            ))
        };
        if self.live < self.threads.len() {
            return wrong("is made by part of the block");
        }
        if self.common_place(&callers).is_none() {
            return wrong("is made at different places");
        }
        let Some(Op::Call { arguments, .. }) = self.threads[first as usize].instruction(launched).map(|i| &i.op) else {
            return Ok(false);
        };
        let given = self.threads[first as usize].arguments(arguments);
        if callers.iter().any(|caller| self.threads[*caller as usize].arguments(arguments) != given) {
            return wrong("has different arguments");
        }
        Ok(true)
    }

    /// Makes the call that all threads have come to; whether it is answered.
    pub fn ask(&mut self, launched: &Launched) -> Result<bool, Fault> {
        let thread = &self.threads[0];
        let Some(Op::Call { function, arguments, results }) = thread.instruction(launched).map(|i| &i.op) else {
            return Ok(true);
        };
        let name = &launched.function(*function).name;
        let bytes = results.first().map_or(0, |(_, bytes)| *bytes);
        let answer = launched.machine.call(name, &thread.arguments(arguments), bytes, thread.caller(launched));
        match answer.map_err(|what| self.fault(launched, 0, (Kind::Call, format!("{name}: {what}"))))? {
            Answer::Again => Ok(false),
            Answer::Done(result) => {
                let all = self.waiting(|state| state == State::Call);
                all.iter().for_each(|number| self.threads[*number as usize].give_result(results, &result));
                self.has_asked = false;
                self.release(&all);
                Ok(true)
            }
        }
    }

    fn deadlock(&self, launched: &Launched) -> Fault {
        let first = self.waiting(|state| state != State::Done)[0];
        let done = self.threads.len() - self.live;
        let what = format!("nobody can go on, {done} threads have ended, others wait: {}", self.places(launched));
        self.fault(launched, first, (Kind::Deadlock, what))
    }

    /// How many threads wait at which lines.
    fn places(&self, launched: &Launched) -> String {
        let mut lines = std::collections::BTreeMap::new();
        for thread in self.threads.iter().filter(|thread| thread.state != State::Done) {
            let line = thread.instruction(launched).map_or(0, |instruction| instruction.line);
            *lines.entry(line).or_insert(0) += 1;
        }
        let texts: Vec<_> = lines.iter().map(|(line, count)| format!("{count} at line {line}")).collect();
        texts.join(", ")
    }

    fn fault(&self, launched: &Launched, number: u32, (kind, what): Wrong) -> Fault {
        let thread = &self.threads[number as usize];
        let place = thread.instruction(launched).map_or(String::new(), |instruction| {
            format!(", line {}: {}", instruction.line, launched.placed.module.line(instruction.line))
        });
        Fault::new(kind, format!("{what}; block {:?}, thread {:?}{place}", thread.block, thread.index))
    }
}

/// The lane that a lane hears, and whether that is one of its part of the warp.
fn source_lane(what: Shuffle, lane: u32, by: u32, clamp: u32) -> (u32, bool) {
    let (most, segment) = (clamp & 31, clamp >> 8 & 31);
    let least = lane & segment;
    let most = least | most & !segment;
    let by = by & 31;
    let (from, reached) = match what {
        Shuffle::Up => (lane.wrapping_sub(by), lane as i64 - by as i64 >= most as i64),
        Shuffle::Down => (lane + by, lane + by <= most),
        Shuffle::Butterfly => (lane ^ by, (lane ^ by) <= most),
        Shuffle::Index => (least | by & !segment, (least | by & !segment) <= most),
    };
    if reached { (from, true) } else { (lane, false) }
}
