//! A parsed module: kernels, functions, variables.

use crate::fault::{Fault, Kind};
use crate::instruction::{Instruction, Op};
use std::collections::HashMap;
use std::sync::Arc;

/// A parsed module.
#[derive(Debug, Default)]
pub struct Module {
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) functions: Vec<Function>,
    pub(crate) globals: Vec<Global>,
    /// Directives that were not understood, with their lines.
    pub(crate) odd: Vec<String>,
    pub(crate) lines: Vec<String>,
}

/// A function, or a kernel's body.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub name: String,
    /// Where parameters and results lie in the frame's parameter space: offset and size.
    pub parameters: Vec<(usize, usize)>,
    pub results: Vec<(usize, usize)>,
    /// Sizes of a frame.
    pub registers: usize,
    pub parameter_space: usize,
    pub local_bytes: usize,
    /// `None`: only declared.
    pub code: Option<Vec<Instruction>>,
}

/// A parameter of a kernel, in bytes from the start of all parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Where it begins.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
    /// Its alignment.
    pub align: usize,
}

/// A kernel.
#[derive(Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// In order.
    pub parameters: Vec<Parameter>,
    /// The size of all parameters together.
    pub parameter_bytes: usize,
    /// Shared memory beside what a launch adds.
    pub static_shared_bytes: usize,
    /// The most threads of a block, where the kernel limits them.
    pub max_threads: Option<u32>,
    pub(crate) function: usize,
}

/// A variable of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: usize,
    /// Its alignment.
    pub align: usize,
    /// Its first bytes; the rest is zero.
    pub initial: Vec<u8>,
    /// Kernels only read it.
    pub is_constant: bool,
}

impl Module {
    /// Parses PTX. Instructions that are not known are no fault yet: see [`Module::unknown`].
    pub fn parse(ptx: &str) -> Result<Module, Fault> {
        crate::parse::parse(ptx)
    }

    /// Instructions and directives that are not understood, each with its line. Reaching one is a fault.
    pub fn unknown(&self) -> Vec<String> {
        let code = self.functions.iter().filter_map(|function| function.code.as_ref()).flatten();
        let unknown = code.filter_map(|instruction| match &instruction.op {
            Op::Unknown(text) => Some(format!("{}: {text}", instruction.line)),
            _ => None,
        });
        self.odd.iter().cloned().chain(unknown).collect()
    }

    /// Its kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }

    /// A kernel by its name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// Its variables: whoever runs it places them in memory.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// The functions that are called, but only declared.
    pub fn externs(&self) -> Vec<&str> {
        let declared = self.functions.iter().filter(|function| function.code.is_none());
        declared.map(|function| function.name.as_str()).collect()
    }

    /// A line of the text.
    pub(crate) fn line(&self, line: u32) -> &str {
        self.lines.get(line as usize - 1).map_or("", |text| text.trim())
    }
}

/// A module whose variables have been placed.
#[derive(Clone, Debug)]
pub struct Placed {
    pub(crate) module: Arc<Module>,
    /// Of each variable, in the module's order.
    pub(crate) addresses: Vec<u64>,
}

impl Placed {
    /// Where each variable lies, by its name.
    pub fn new(module: Arc<Module>, addresses: HashMap<String, u64>) -> Result<Placed, Fault> {
        let place = |global: &Global| {
            let address = addresses.get(&global.name).copied();
            address.ok_or_else(|| Fault::new(Kind::Launch, format!("variable {} has no place", global.name)))
        };
        let addresses = module.globals.iter().map(place).collect::<Result<_, _>>()?;
        Ok(Placed { module, addresses })
    }

    /// Where a variable lies, by its place in [`Module::globals`].
    pub fn address(&self, variable: usize) -> u64 {
        self.addresses[variable]
    }

    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }
}
