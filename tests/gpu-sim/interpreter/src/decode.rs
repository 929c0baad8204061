//! An instruction from its name and operands; `None` where it is not known.

use crate::instruction::{Address, Atomic, Compare, Compute, Logic, Op, Operand, Shuffle, Space, Vote};
use crate::parse::Written;
use crate::value::{Meaning, Type};

/// The parts of a name: `ld`, and `volatile`, `global`, `u32`.
struct Name<'a> {
    first: &'a str,
    rest: Vec<&'a str>,
}

impl Name<'_> {
    fn has(&self, part: &str) -> bool {
        self.rest.contains(&part)
    }

    /// The types in it, in order.
    fn types(&self) -> Vec<Type> {
        self.rest.iter().filter_map(|part| Type::parse(part)).collect()
    }

    fn space(&self) -> Space {
        let spaces = [
            ("global", Space::Global),
            ("const", Space::Constant),
            ("shared", Space::Shared),
            ("shared::cta", Space::Shared),
            ("local", Space::Local),
            ("param", Space::Parameter),
        ];
        spaces.iter().find(|(name, _)| self.has(name)).map_or(Space::Generic, |(_, space)| *space)
    }
}

/// The operation of an instruction.
pub fn decode(name: &str, operands: &[Written]) -> Option<Op> {
    let mut parts = name.split('.');
    let name = Name { first: parts.next()?, rest: parts.collect() };
    let kind = name.types().last().copied();
    let to = || operands.first()?.register();
    let plain = |index: usize| operands.get(index)?.plain();
    let zero = Operand::Constant(0);
    let compute = |what: Compute, inputs: usize| {
        let operand = |index: usize| if index < inputs { plain(index + 1) } else { Some(zero) };
        Some(Op::Compute { what, kind: kind?, to: to()?, a: operand(0)?, b: operand(1)?, c: operand(2)? })
    };
    let is_float = kind.is_some_and(|kind| kind.meaning == Meaning::Float);
    match name.first {
        "mov" => moved(kind?, operands),
        "ld" | "ldu" => load(&name, kind?, operands),
        "st" => store(&name, kind?, operands),
        "add" if !name.has("cc") => compute(Compute::Add, 2),
        "sub" if !name.has("cc") => compute(Compute::Sub, 2),
        "mul" if name.has("wide") => compute(Compute::MulWide, 2),
        "mul" if name.has("hi") => compute(Compute::MulHigh, 2),
        "mul" => compute(Compute::MulLow, 2),
        "mad" if is_float => compute(Compute::Fma, 3),
        "mad" if name.has("wide") => compute(Compute::MadWide, 3),
        "mad" if name.has("hi") => compute(Compute::MadHigh, 3),
        "mad" if name.has("lo") && !name.has("cc") => compute(Compute::MadLow, 3),
        "fma" => compute(Compute::Fma, 3),
        "div" => compute(Compute::Div, 2),
        "rem" => compute(Compute::Rem, 2),
        "min" => compute(Compute::Min, 2),
        "max" => compute(Compute::Max, 2),
        "abs" => compute(Compute::Abs, 1),
        "neg" => compute(Compute::Neg, 1),
        "not" if kind?.meaning == Meaning::Predicate => compute(Compute::LogicalNot, 1),
        "not" => compute(Compute::Not, 1),
        "cnot" => compute(Compute::LogicalNot, 1),
        "and" => compute(Compute::And, 2),
        "or" => compute(Compute::Or, 2),
        "xor" => compute(Compute::Xor, 2),
        "shl" => compute(Compute::ShiftLeft, 2),
        "shr" => compute(Compute::ShiftRight, 2),
        "shf" if name.has("l") => compute(Compute::FunnelLeft { clamps: name.has("clamp") }, 3),
        "shf" => compute(Compute::FunnelRight { clamps: name.has("clamp") }, 3),
        "popc" => compute(Compute::PopulationCount, 1),
        "clz" => compute(Compute::LeadingZeros, 1),
        "brev" => compute(Compute::Reverse, 1),
        "bfe" => compute(Compute::BitExtract, 3),
        "prmt" if name.rest == ["b32"] => compute(Compute::Permute, 3),
        "selp" => compute(Compute::Select, 3),
        "bfi" => Some(Op::BitInsert {
            kind: kind?,
            to: to()?,
            a: plain(1)?,
            b: plain(2)?,
            position: plain(3)?,
            length: plain(4)?,
        }),
        "setp" => set(&name, kind?, operands),
        "cvt" => {
            let [to_kind, from_kind] = name.types()[..] else { return None };
            let truncates = name.has("rzi") || name.has("rz");
            Some(Op::Convert { to_kind, from_kind, to: to()?, from: plain(1)?, saturates: name.has("sat"), truncates })
        }
        "cvta" if name.has("to") => Some(Op::FromGeneric { space: name.space(), to: to()?, from: plain(1)? }),
        "cvta" => Some(Op::ToGeneric { space: name.space(), to: to()?, from: plain(1)? }),
        "isspacep" => Some(Op::IsSpace { space: name.space(), to: to()?, from: plain(1)? }),
        "atom" => atomic(&name, kind?, to(), &operands[1..]),
        "red" if !name.has("async") => atomic(&name, kind?, None, operands),
        "bra" => Some(Op::Branch { target: u32::MAX }),
        "brx" => Some(Op::BranchTable { targets: Vec::new(), index: plain(0)? }),
        "ret" => Some(Op::Return),
        "exit" => Some(Op::Exit),
        "trap" => Some(Op::Trap),
        "bar" | "barrier" if name.has("warp") => Some(Op::WarpBarrier { members: plain(0)? }),
        "bar" | "barrier" if name.has("sync") => {
            let threads = if operands.len() > 1 { Some(plain(1)?) } else { None };
            Some(Op::Barrier { id: plain(0)?, threads })
        }
        "membar" | "fence" if name.rest.iter().all(|part| !part.contains("proxy")) => Some(Op::Fence),
        "nanosleep" => Some(Op::Sleep),
        "prefetch" | "prefetchu" | "discard" | "applypriority" | "createpolicy" => Some(Op::Nothing),
        "shfl" => shuffle(&name, operands),
        "vote" => vote(&name, operands),
        "activemask" => Some(Op::ActiveMask { to: to()? }),
        _ => None,
    }
}

fn moved(kind: Type, operands: &[Written]) -> Option<Op> {
    let bits = kind.bits;
    match operands {
        [Written::Several(to), from] => {
            let to = to.iter().map(register_or_nobody).collect::<Option<_>>()?;
            Some(Op::Unpack { to, from: from.plain()?, bits })
        }
        [to, Written::Several(from)] => {
            Some(Op::Pack { to: to.register()?, from: from.iter().copied().collect::<Option<_>>()?, bits })
        }
        [to, from] => Some(Op::Move { to: to.register()?, from: from.plain()?, bits }),
        _ => None,
    }
}

fn register_or_nobody(operand: &Option<Operand>) -> Option<Option<u32>> {
    match operand {
        None => Some(None),
        Some(Operand::Register(register)) => Some(Some(*register)),
        Some(_) => None,
    }
}

fn address(operand: &Written) -> Option<Address> {
    match operand {
        Written::At(address) => Some(*address),
        _ => None,
    }
}

fn load(name: &Name, kind: Type, operands: &[Written]) -> Option<Op> {
    let to = match operands.first()? {
        Written::Several(to) => to.iter().map(register_or_nobody).collect::<Option<_>>()?,
        to => vec![Some(to.register()?)],
    };
    let waits = ["volatile", "relaxed", "acquire", "mmio"].iter().any(|part| name.has(part));
    Some(Op::Load { space: name.space(), kind, to, address: address(operands.get(1)?)?, waits })
}

fn store(name: &Name, kind: Type, operands: &[Written]) -> Option<Op> {
    let from = match operands.get(1)? {
        Written::Several(from) => from.iter().copied().collect::<Option<_>>()?,
        from => vec![from.plain()?],
    };
    Some(Op::Store { space: name.space(), kind, from, address: address(operands.first()?)? })
}

fn set(name: &Name, kind: Type, operands: &[Written]) -> Option<Op> {
    let compare = match *name.rest.first()? {
        "eq" => Compare::Equal,
        "ne" => Compare::NotEqual,
        "lt" | "lo" => Compare::Less,
        "le" | "ls" => Compare::LessEqual,
        "gt" | "hi" => Compare::Greater,
        "ge" | "hs" => Compare::GreaterEqual,
        _ => return None,
    };
    let logic = [("and", Logic::And), ("or", Logic::Or), ("xor", Logic::Xor)];
    let and = match logic.iter().find(|(word, _)| name.has(word)) {
        Some((_, logic)) => Some((*logic, operands.get(3)?.plain()?)),
        None => None,
    };
    let (to, inverse) = match operands.first()? {
        Written::Pair(to, inverse) => ((*to)?, *inverse),
        to => (to.register()?, None),
    };
    Some(Op::Set { compare, kind, to, inverse, a: operands.get(1)?.plain()?, b: operands.get(2)?.plain()?, and })
}

/// `operands`: the address, and one or two values.
fn atomic(name: &Name, kind: Type, to: Option<u32>, operands: &[Written]) -> Option<Op> {
    let all = [
        ("add", Atomic::Add),
        ("exch", Atomic::Exchange),
        ("cas", Atomic::CompareAndSwap),
        ("min", Atomic::Min),
        ("max", Atomic::Max),
        ("and", Atomic::And),
        ("or", Atomic::Or),
        ("xor", Atomic::Xor),
        ("inc", Atomic::Increment),
        ("dec", Atomic::Decrement),
    ];
    let (_, what) = *all.iter().find(|(word, _)| name.has(word))?;
    if kind.meaning == Meaning::Float || kind.bits < 32 {
        return None;
    }
    let (a, b) = (operands.get(1)?.plain()?, operands.get(2).and_then(Written::plain));
    Some(Op::Atomic {
        what,
        space: name.space(),
        kind,
        to,
        address: address(operands.first()?)?,
        a,
        b: b.unwrap_or(Operand::Constant(0)),
    })
}

fn shuffle(name: &Name, operands: &[Written]) -> Option<Op> {
    let all = [("up", Shuffle::Up), ("down", Shuffle::Down), ("bfly", Shuffle::Butterfly), ("idx", Shuffle::Index)];
    let (_, what) = *all.iter().find(|(word, _)| name.has(word))?;
    let (to, valid) = match operands.first()? {
        Written::Pair(to, valid) => ((*to)?, *valid),
        to => (to.register()?, None),
    };
    let plain = |index: usize| operands.get(index)?.plain();
    Some(Op::Shuffle { what, to, valid, value: plain(1)?, lane: plain(2)?, clamp: plain(3)?, members: plain(4)? })
}

fn vote(name: &Name, operands: &[Written]) -> Option<Op> {
    let all = [("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform), ("ballot", Vote::Ballot)];
    let (_, what) = *all.iter().find(|(word, _)| name.has(word))?;
    let plain = |index: usize| operands.get(index)?.plain();
    Some(Op::Vote { what, to: operands.first()?.register()?, value: plain(1)?, members: plain(2)? })
}
