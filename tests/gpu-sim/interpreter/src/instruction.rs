//! What instructions there are, decoded.

use crate::value::Type;

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The register that must be true, or with `true` false.
    pub guard: Option<(u32, bool)>,
    pub op: Op,
    pub line: u32,
}

/// What an operand's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Register(u32),
    /// A predicate that counts the other way round.
    Not(u32),
    Constant(u64),
    /// The address of variable `.0` of the module, and an offset.
    Global(u32, i64),
    /// An offset in this frame's local memory.
    Local(i64),
    /// An offset in the frame's parameters.
    Parameter(i64),
    /// Offset in dynamic shared memory, which begins where the kernel's own ends.
    DynamicShared(i64),
    Special(Special),
}

/// Registers that can only be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    Thread(u8),
    Threads(u8),
    Block(u8),
    Blocks(u8),
    Lane,
    Warp,
    WarpThreads,
    LaneMask(LaneMask),
    Clock,
    GlobalTimer,
    Processor,
    DynamicSharedBytes,
}

/// Lanes, compared with the own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneMask {
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Generic,
    Global,
    Constant,
    Shared,
    Local,
    Parameter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub base: Operand,
    pub offset: i64,
}

/// Arithmetic, by the name of its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    Add,
    Sub,
    MulLow,
    MulHigh,
    MulWide,
    MadLow,
    MadHigh,
    MadWide,
    Div,
    Rem,
    Min,
    Max,
    Abs,
    Neg,
    Not,
    And,
    Or,
    Xor,
    LogicalNot,
    ShiftLeft,
    ShiftRight,
    FunnelLeft { clamps: bool },
    FunnelRight { clamps: bool },
    PopulationCount,
    LeadingZeros,
    Reverse,
    BitExtract,
    Permute,
    Select,
    Fma,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logic {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    Add,
    Exchange,
    CompareAndSwap,
    Min,
    Max,
    And,
    Or,
    Xor,
    Increment,
    Decrement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub enum Op {
    Move {
        to: u32,
        from: Operand,
        bits: u32,
    },
    /// One register from several, lowest first.
    Pack {
        to: u32,
        from: Vec<Operand>,
        bits: u32,
    },
    Unpack {
        to: Vec<Option<u32>>,
        from: Operand,
        bits: u32,
    },
    Compute {
        what: Compute,
        kind: Type,
        to: u32,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    BitInsert {
        kind: Type,
        to: u32,
        a: Operand,
        b: Operand,
        position: Operand,
        length: Operand,
    },
    Set {
        compare: Compare,
        kind: Type,
        to: u32,
        inverse: Option<u32>,
        a: Operand,
        b: Operand,
        and: Option<(Logic, Operand)>,
    },
    Convert {
        to_kind: Type,
        from_kind: Type,
        to: u32,
        from: Operand,
        saturates: bool,
        truncates: bool,
    },
    /// To a generic address, or from one.
    ToGeneric {
        space: Space,
        to: u32,
        from: Operand,
    },
    FromGeneric {
        space: Space,
        to: u32,
        from: Operand,
    },
    IsSpace {
        space: Space,
        to: u32,
        from: Operand,
    },
    /// `waits`: another thread or process may have to act before the value changes.
    Load {
        space: Space,
        kind: Type,
        to: Vec<Option<u32>>,
        address: Address,
        waits: bool,
    },
    Store {
        space: Space,
        kind: Type,
        from: Vec<Operand>,
        address: Address,
    },
    Atomic {
        what: Atomic,
        space: Space,
        kind: Type,
        to: Option<u32>,
        address: Address,
        a: Operand,
        b: Operand,
    },
    Branch {
        target: u32,
    },
    BranchTable {
        targets: Vec<u32>,
        index: Operand,
    },
    /// Of a function of the module. Arguments and result are offsets in this frame's parameters.
    Call {
        function: u32,
        arguments: Vec<(usize, usize)>,
        results: Vec<(usize, usize)>,
    },
    Return,
    Exit,
    Trap,
    Barrier {
        id: Operand,
        threads: Option<Operand>,
    },
    WarpBarrier {
        members: Operand,
    },
    Shuffle {
        what: Shuffle,
        to: u32,
        valid: Option<u32>,
        value: Operand,
        lane: Operand,
        clamp: Operand,
        members: Operand,
    },
    Vote {
        what: Vote,
        to: u32,
        value: Operand,
        members: Operand,
    },
    ActiveMask {
        to: u32,
    },
    Fence,
    Sleep,
    Nothing,
    Unknown(String),
}
