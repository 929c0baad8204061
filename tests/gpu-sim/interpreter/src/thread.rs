//! One thread, and what one instruction does to it.

use crate::fault::Kind;
use crate::instruction::{Address, Atomic, Instruction, LaneMask, Logic, Op, Operand, Space, Special};
use crate::machine::{Answer, Caller, Machine};
use crate::memory::{Shared, View, Wrong, from_bytes, is_in, window};
use crate::module::{Function, Placed};
use crate::value::{Type, compare, compute, convert, signed};
use std::time::{SystemTime, UNIX_EPOCH};

pub const WARP: u32 = 32;
/// Calls within calls, at most.
const MOST_FRAMES: usize = 256;

/// What all threads of a launch share.
pub struct Launched<'a> {
    pub placed: &'a Placed,
    pub machine: &'a dyn Machine,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Where the memory that the launch adds begins, and its size.
    pub dynamic_shared: (usize, usize),
}

impl Launched<'_> {
    pub fn block_threads(&self) -> u32 {
        self.block.iter().product()
    }

    pub fn function(&self, index: u32) -> &Function {
        &self.placed.module.functions[index as usize]
    }
}

/// A place in the code.
pub type At = (u32, u32);

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    /// A barrier with this number, of so many threads or of all.
    Barrier {
        id: u64,
        threads: Option<u64>,
    },
    /// The lanes of its warp in this mask.
    Warp {
        members: u32,
    },
    /// A call that the block makes together.
    Call,
    Done,
}

/// What came of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something that only this thread sees.
    Silent,
    /// Something that others may see or wait for.
    Seen,
    /// It looked for something that has not changed, or sleeps.
    Waits,
    /// It waits for others of its block, at this instruction.
    Meets(State),
}

/// A function that is being run.
#[derive(Debug)]
struct Frame {
    function: u32,
    next: u32,
    registers: usize,
    parameters: usize,
    local: usize,
    /// Where the caller wants the results, in its parameters.
    results: Vec<(usize, usize)>,
}

/// One thread.
#[derive(Debug)]
pub struct Thread {
    pub block: [u32; 3],
    pub index: [u32; 3],
    /// Its number in the block.
    pub number: u32,
    pub state: State,
    frames: Vec<Frame>,
    registers: Vec<u64>,
    parameters: Vec<u8>,
    local: Vec<u8>,
    /// What a load that waits last saw, and where.
    seen: (At, u64),
}

impl Thread {
    pub fn new(launched: &Launched, kernel: u32, block: [u32; 3], number: u32, parameters: &[u8]) -> Thread {
        let [x, y, _] = launched.block;
        let mut thread = Thread {
            block,
            index: [number % x, number / x % y, number / x / y],
            number,
            state: State::Ready,
            frames: Vec::new(),
            registers: Vec::new(),
            parameters: Vec::new(),
            local: Vec::new(),
            seen: ((u32::MAX, u32::MAX), 0),
        };
        thread.enter(launched.function(kernel), kernel, Vec::new());
        let length = parameters.len().min(thread.parameters.len());
        thread.parameters[..length].copy_from_slice(&parameters[..length]);
        thread
    }

    fn enter(&mut self, function: &Function, index: u32, results: Vec<(usize, usize)>) {
        self.frames.push(Frame {
            function: index,
            next: 0,
            registers: self.registers.len(),
            parameters: self.parameters.len(),
            local: self.local.len().next_multiple_of(16),
            results,
        });
        let frame = self.frames.last().expect("just pushed");
        self.registers.resize(frame.registers + function.registers, 0);
        self.parameters.resize(frame.parameters + function.parameter_space, 0);
        self.local.resize(frame.local + function.local_bytes, 0);
    }

    fn frame(&self) -> &Frame {
        self.frames.last().expect("a thread that is not done has a frame")
    }

    /// Where it is.
    pub fn at(&self) -> At {
        let frame = self.frame();
        (frame.function, frame.next)
    }

    /// Goes on behind the instruction at which it was.
    pub fn advance(&mut self) {
        self.frames.last_mut().expect("a thread that is not done has a frame").next += 1;
    }

    fn jump(&mut self, to: u32) {
        self.frames.last_mut().expect("a thread that is not done has a frame").next = to;
    }

    pub fn instruction<'a>(&self, launched: &'a Launched) -> Option<&'a Instruction> {
        let frame = self.frames.last()?;
        launched.function(frame.function).code.as_ref()?.get(frame.next as usize)
    }

    pub fn get(&self, register: u32) -> u64 {
        self.registers[self.frame().registers + register as usize]
    }

    pub fn set(&mut self, register: u32, value: u64) {
        let base = self.frame().registers;
        self.registers[base + register as usize] = value;
    }

    pub fn lane(&self) -> u32 {
        self.number % WARP
    }

    pub fn value(&self, launched: &Launched, operand: Operand) -> u64 {
        match operand {
            Operand::Register(register) => self.get(register),
            Operand::Not(register) => self.get(register) ^ 1,
            Operand::Constant(value) => value,
            Operand::Global(variable, offset) => {
                launched.placed.addresses[variable as usize].wrapping_add_signed(offset)
            }
            Operand::Local(offset) => (self.frame().local as u64).wrapping_add_signed(offset),
            Operand::Parameter(offset) => offset as u64,
            Operand::DynamicShared(offset) => (launched.dynamic_shared.0 as u64).wrapping_add_signed(offset),
            Operand::Special(special) => self.special(launched, special),
        }
    }

    fn special(&self, launched: &Launched, special: Special) -> u64 {
        let lane = self.lane();
        let below = (1u64 << lane) - 1;
        let nanoseconds = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        match special {
            Special::Thread(axis) => self.index[axis as usize] as u64,
            Special::Threads(axis) => launched.block[axis as usize] as u64,
            Special::Block(axis) => self.block[axis as usize] as u64,
            Special::Blocks(axis) => launched.grid[axis as usize] as u64,
            Special::Lane => lane as u64,
            Special::Warp => (self.number / WARP) as u64,
            Special::WarpThreads => WARP as u64,
            Special::LaneMask(LaneMask::Equal) => below + 1,
            Special::LaneMask(LaneMask::Less) => below,
            Special::LaneMask(LaneMask::LessEqual) => 2 * below + 1,
            Special::LaneMask(LaneMask::Greater) => !(2 * below + 1) & u32::MAX as u64,
            Special::LaneMask(LaneMask::GreaterEqual) => !below & u32::MAX as u64,
            Special::Clock | Special::GlobalTimer => nanoseconds(),
            Special::Processor => 0,
            Special::DynamicSharedBytes => launched.dynamic_shared.1 as u64,
        }
    }

    fn address(&self, launched: &Launched, address: Address) -> u64 {
        self.value(launched, address.base).wrapping_add_signed(address.offset)
    }

    /// The bytes of arguments, in the order of the call.
    pub fn arguments(&self, places: &[(usize, usize)]) -> Vec<Vec<u8>> {
        let base = self.frame().parameters;
        places.iter().map(|(offset, bytes)| self.parameters[base + offset..base + offset + bytes].to_vec()).collect()
    }

    /// Puts the result of a call where it belongs.
    pub fn give_result(&mut self, places: &[(usize, usize)], result: &[u8]) {
        let base = self.frame().parameters;
        if let Some((offset, bytes)) = places.first() {
            let length = result.len().min(*bytes);
            self.parameters[base + offset..base + offset + length].copy_from_slice(&result[..length]);
        }
    }

    pub fn caller(&self, launched: &Launched) -> Caller {
        Caller { block: self.block, thread: self.index, block_threads: launched.block_threads() }
    }

    fn view<'a>(&'a mut self, launched: &'a Launched, shared: &'a mut Shared) -> View<'a> {
        View { machine: launched.machine, shared, local: &mut self.local }
    }

    /// Runs the next instruction.
    pub fn step(&mut self, launched: &Launched, shared: &mut Shared) -> Result<Step, Wrong> {
        let Some(instruction) = self.instruction(launched) else { return Ok(self.leave(launched)) };
        if let Some((register, negated)) = instruction.guard
            && (self.get(register) & 1 == 1) == negated
        {
            self.advance();
            return Ok(Step::Silent);
        }
        let step = self.act(launched, shared, &instruction.op)?;
        Ok(step)
    }

    fn act(&mut self, launched: &Launched, shared: &mut Shared, op: &Op) -> Result<Step, Wrong> {
        let value = |thread: &Thread, operand: Operand| thread.value(launched, operand);
        match op {
            Op::Compute { what, kind, to, a, b, c } => {
                let result = compute(*what, *kind, value(self, *a), value(self, *b), value(self, *c));
                let result = result.ok_or_else(|| (Kind::Unknown, "no such arithmetic on this type".to_owned()))?;
                self.set(*to, result);
            }
            Op::Move { to, from, bits } => {
                let value = Type { meaning: crate::value::Meaning::Unsigned, bits: *bits }.cut(value(self, *from));
                self.set(*to, value);
            }
            Op::Set { compare: how, kind, to, inverse, a, b, and } => {
                let held = compare(*how, *kind, value(self, *a), value(self, *b)) as u64;
                let combine = |held: u64| match and {
                    None => held,
                    Some((Logic::And, other)) => held & value(self, *other),
                    Some((Logic::Or, other)) => held | value(self, *other),
                    Some((Logic::Xor, other)) => held ^ value(self, *other),
                };
                let (result, inverted) = (combine(held) & 1, combine(held ^ 1) & 1);
                self.set(*to, result);
                if let Some(inverse) = inverse {
                    self.set(*inverse, inverted);
                }
            }
            Op::Branch { target } => {
                self.jump(*target);
                return Ok(Step::Silent);
            }
            Op::BranchTable { targets, index } => {
                let index = value(self, *index) as usize;
                let target = targets.get(index).ok_or_else(|| (Kind::Trap, format!("no branch {index}")))?;
                self.jump(*target);
                return Ok(Step::Silent);
            }
            Op::Convert { to_kind, from_kind, to, from, saturates, truncates } => {
                let converted = convert(*to_kind, *from_kind, value(self, *from), *saturates, *truncates);
                self.set(*to, converted);
            }
            Op::Load { space: Space::Parameter, kind, to, address, .. } => {
                self.load_parameter(launched, *kind, to, address)
            }
            Op::Store { space: Space::Parameter, kind, from, address } => {
                let at = self.frame().parameters + self.address(launched, *address) as usize;
                for (index, operand) in from.iter().enumerate() {
                    let (bytes, at) = (kind.bytes(), at + index * kind.bytes());
                    let text = value(self, *operand).to_le_bytes();
                    self.parameters[at..at + bytes].copy_from_slice(&text[..bytes]);
                }
            }
            Op::Load { space, kind, to, address, waits } => {
                return self.load(launched, shared, *space, *kind, to, *address, *waits);
            }
            Op::Store { space, kind, from, address } => {
                let mut values = [0; 8];
                let values = &mut values[..from.len()];
                values.iter_mut().zip(from).for_each(|(to, from)| *to = value(self, *from));
                let address = self.address(launched, *address);
                self.view(launched, shared).store(*space, address, kind.bytes(), values)?;
                self.advance();
                return Ok(if *space == Space::Local { Step::Silent } else { Step::Seen });
            }
            Op::Atomic { what, space, kind, to, address, a, b } => {
                let (a, b) = (value(self, *a), value(self, *b));
                let address = self.address(launched, *address);
                let change = |old: u64| changed(*what, *kind, old, a, b);
                let old = self.view(launched, shared).change(*space, address, kind.bytes(), change)?;
                if let Some(to) = to {
                    self.set(*to, old);
                }
                self.advance();
                return Ok(if change(old) == old { Step::Waits } else { Step::Seen });
            }
            Op::ToGeneric { space, to, from } => self.set(*to, value(self, *from).wrapping_add(window(*space))),
            Op::FromGeneric { space, to, from } => self.set(*to, value(self, *from).wrapping_sub(window(*space))),
            Op::IsSpace { space, to, from } => self.set(*to, is_in(*space, value(self, *from)) as u64),
            Op::Pack { to, from, bits } => {
                let each = bits / from.len() as u32;
                let part = |index: usize| (value(self, from[index]) & ((1 << each) - 1)) << (index as u32 * each);
                self.set(*to, (0..from.len()).fold(0, |all, index| all | part(index)));
            }
            Op::Unpack { to, from, bits } => {
                let (whole, each) = (value(self, *from), bits / to.len() as u32);
                for (index, to) in to.iter().enumerate() {
                    if let Some(to) = to {
                        self.set(*to, whole >> (index as u32 * each) & ((1 << each) - 1));
                    }
                }
            }
            Op::BitInsert { kind, to, a, b, position, length } => {
                let (position, length) = (value(self, *position) & 255, value(self, *length) & 255);
                let mask = if position >= 64 { 0 } else { (((1u128 << length.min(64)) - 1) as u64) << position };
                let inserted = value(self, *a).checked_shl(position as u32).unwrap_or(0) & mask;
                self.set(*to, kind.cut(value(self, *b) & !mask | inserted));
            }
            Op::Call { function, arguments, results } => {
                return self.call(launched, shared, *function, arguments, results);
            }
            Op::Return => return Ok(self.leave(launched)),
            Op::Exit => {
                self.frames.clear();
                return Ok(Step::Meets(State::Done));
            }
            Op::Trap => return Err((Kind::Trap, "a trap".into())),
            Op::Barrier { id, threads } => {
                let threads = threads.map(|threads| value(self, threads));
                return Ok(Step::Meets(State::Barrier { id: value(self, *id), threads }));
            }
            Op::WarpBarrier { members } | Op::Shuffle { members, .. } | Op::Vote { members, .. } => {
                return Ok(Step::Meets(State::Warp { members: value(self, *members) as u32 }));
            }
            Op::ActiveMask { to } => self.set(*to, 1 << self.lane()),
            Op::Fence => {
                std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
                self.advance();
                return Ok(Step::Silent);
            }
            Op::Sleep => {
                self.advance();
                return Ok(Step::Waits);
            }
            Op::Nothing => {}
            Op::Unknown(text) => return Err((Kind::Unknown, format!("an instruction that is not known: {text}"))),
        }
        self.advance();
        Ok(Step::Silent)
    }

    fn load_parameter(&mut self, launched: &Launched, kind: Type, to: &[Option<u32>], address: &Address) {
        let at = self.frame().parameters + self.address(launched, *address) as usize;
        for (index, to) in to.iter().enumerate() {
            let at = at + index * kind.bytes();
            let value = kind.extend(from_bytes(&self.parameters[at..at + kind.bytes()]));
            if let Some(to) = to {
                self.set(*to, value);
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // the parts of one instruction
    fn load(
        &mut self,
        launched: &Launched,
        shared: &mut Shared,
        space: Space,
        kind: Type,
        to: &[Option<u32>],
        address: Address,
        waits: bool,
    ) -> Result<Step, Wrong> {
        let mut values = [0; 8];
        let values = &mut values[..to.len()];
        let address = self.address(launched, address);
        self.view(launched, shared).load(space, address, kind.bytes(), values)?;
        for (to, value) in to.iter().zip(&*values) {
            if let Some(to) = to {
                self.set(*to, kind.extend(*value));
            }
        }
        let step = match waits {
            false => Step::Silent,
            true if self.seen == (self.at(), values[0]) => Step::Waits,
            true => {
                self.seen = (self.at(), values[0]);
                Step::Seen
            }
        };
        self.advance();
        Ok(step)
    }

    fn call(
        &mut self,
        launched: &Launched,
        shared: &mut Shared,
        index: u32,
        arguments: &[(usize, usize)],
        results: &[(usize, usize)],
    ) -> Result<Step, Wrong> {
        let function = launched.function(index);
        let given = self.arguments(arguments);
        if function.code.is_some() {
            if self.frames.len() == MOST_FRAMES {
                return Err((Kind::Trap, format!("{MOST_FRAMES} calls within calls")));
            }
            self.advance();
            self.enter(function, index, results.to_vec());
            let base = self.frame().parameters;
            for (bytes, (offset, size)) in given.iter().zip(&function.parameters) {
                let length = bytes.len().min(*size);
                self.parameters[base + offset..base + offset + length].copy_from_slice(&bytes[..length]);
            }
            return Ok(Step::Silent);
        }
        if function.name == "vprintf" {
            let text = crate::print::format(&mut self.view(launched, shared), &given)?;
            launched.machine.print(&text);
            self.advance();
            return Ok(Step::Seen);
        }
        if launched.machine.is_block_wide(&function.name) {
            return Ok(Step::Meets(State::Call));
        }
        let bytes = results.first().map_or(0, |(_, bytes)| *bytes);
        let answer = launched.machine.call(&function.name, &given, bytes, self.caller(launched));
        match answer.map_err(|what| (Kind::Call, format!("{}: {what}", function.name)))? {
            Answer::Again => Ok(Step::Waits),
            Answer::Done(result) => {
                self.give_result(results, &result);
                self.advance();
                Ok(Step::Seen)
            }
        }
    }

    /// Returns from a function; from the kernel, it is done.
    fn leave(&mut self, launched: &Launched) -> Step {
        let frame = self.frames.pop().expect("a thread that is not done has a frame");
        if self.frames.is_empty() {
            return Step::Meets(State::Done);
        }
        let function = launched.function(frame.function);
        let caller = self.frame().parameters;
        for ((from, bytes), (to, room)) in function.results.iter().zip(&frame.results) {
            let from = frame.parameters + from;
            self.parameters.copy_within(from..from + bytes.min(room), caller + to);
        }
        self.registers.truncate(frame.registers);
        self.parameters.truncate(frame.parameters);
        self.local.truncate(frame.local);
        Step::Silent
    }
}

fn changed(what: Atomic, kind: Type, old: u64, a: u64, b: u64) -> u64 {
    let less = |x: u64, y: u64| match kind.meaning {
        crate::value::Meaning::Signed => signed(x, kind.bits) < signed(y, kind.bits),
        _ => kind.cut(x) < kind.cut(y),
    };
    kind.cut(match what {
        Atomic::Add => old.wrapping_add(a),
        Atomic::Exchange => a,
        Atomic::CompareAndSwap => {
            if kind.cut(old) == kind.cut(a) {
                b
            } else {
                old
            }
        }
        Atomic::Min => {
            if less(a, old) {
                a
            } else {
                old
            }
        }
        Atomic::Max => {
            if less(old, a) {
                a
            } else {
                old
            }
        }
        Atomic::And => old & a,
        Atomic::Or => old | a,
        Atomic::Xor => old ^ a,
        Atomic::Increment => {
            if less(old, a) {
                old + 1
            } else {
                0
            }
        }
        Atomic::Decrement => {
            if old == 0 || less(a, old) {
                a
            } else {
                old - 1
            }
        }
    })
}
