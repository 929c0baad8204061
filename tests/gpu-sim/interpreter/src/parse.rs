//! Modules, functions and variables, and the operands of instructions.

use crate::decode::decode;
use crate::fault::{Fault, Kind};
use crate::instruction::{Address, Instruction, Op, Operand, Special};
use crate::module::{Function, Global, Kernel, Module, Parameter};
use crate::token::{Token, tokens};
use crate::value::Type;
use std::collections::HashMap;

type Result<T> = std::result::Result<T, Fault>;

pub fn parse(ptx: &str) -> Result<Module> {
    let mut parser = Parser {
        tokens: tokens(ptx)?,
        next: 0,
        module: Module { lines: ptx.lines().map(str::to_owned).collect(), ..Module::default() },
        functions: HashMap::new(),
        globals: HashMap::new(),
        shared: HashMap::new(),
        shared_bytes: 0,
    };
    while parser.next < parser.tokens.len() {
        parser.item()?;
    }
    Ok(parser.module)
}

/// What a name means in a function.
#[derive(Clone, Copy, Debug)]
enum Named {
    Register(u32),
    /// Offset and bytes.
    Parameter(usize, usize),
    Local(usize),
    Shared(usize),
}

/// An operand as it is written.
#[derive(Clone, Debug)]
pub enum Written {
    Plain(Operand),
    /// `{a, b}`; `_` is `None`.
    Several(Vec<Option<Operand>>),
    /// `[a+b]`
    At(Address),
    /// `p|q`
    Pair(Option<u32>, Option<u32>),
    /// `_`
    Nobody,
    /// A name that means nothing here: a label or a function.
    Name(String),
    /// `(a, b)`
    Group(Vec<String>),
}

struct Parser {
    tokens: Vec<(u32, Token)>,
    next: usize,
    module: Module,
    functions: HashMap<String, u32>,
    globals: HashMap<String, u32>,
    /// Shared variables of the module.
    shared: HashMap<String, usize>,
    shared_bytes: usize,
}

/// A variable's declaration.
struct Variable {
    name: String,
    bytes: usize,
    align: usize,
    kind: Type,
    /// `[]`: what a launch gives.
    is_open: bool,
}

/// The names of a function, by scopes.
#[derive(Default)]
struct Body {
    scopes: Vec<HashMap<String, Named>>,
    function: Function,
    shared_bytes: usize,
    labels: HashMap<String, u32>,
    tables: HashMap<String, Vec<String>>,
    code: Vec<(Instruction, Vec<String>)>,
}

impl Body {
    fn find(&self, name: &str) -> Option<Named> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    fn add(&mut self, name: String, what: Named) {
        self.scopes.last_mut().expect("a function is a scope").insert(name, what);
    }

    fn register(&mut self, name: String) {
        self.add(name, Named::Register(self.function.registers as u32));
        self.function.registers += 1;
    }

    fn parameter(&mut self, variable: &Variable) -> (usize, usize) {
        let offset = self.function.parameter_space.next_multiple_of(variable.align);
        self.function.parameter_space = offset + variable.bytes;
        self.add(variable.name.clone(), Named::Parameter(offset, variable.bytes));
        (offset, variable.bytes)
    }
}

impl Parser {
    fn line(&self) -> u32 {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(line, _)| *line)
    }

    fn wrong<T>(&self, what: &str) -> Result<T> {
        let line = self.line();
        Err(Fault::new(Kind::Syntax, format!("line {line}: {what}: {}", self.module.line(line.max(1)))))
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn is_mark(&self, mark: char) -> bool {
        self.peek() == Some(&Token::Mark(mark))
    }

    fn take_mark(&mut self, mark: char) -> bool {
        let is = self.is_mark(mark);
        self.next += is as usize;
        is
    }

    fn expect(&mut self, mark: char) -> Result<()> {
        if self.take_mark(mark) { Ok(()) } else { self.wrong(&format!("`{mark}` is missing")) }
    }

    fn peek_word(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = self.peek_word() == Some(word);
        self.next += is as usize;
        is
    }

    fn word(&mut self) -> Result<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.next += 1;
                Ok(word)
            }
            _ => self.wrong("a name is missing"),
        }
    }

    fn number(&mut self) -> Result<u64> {
        let word = self.word()?;
        number(&word).map_or_else(|| self.wrong("a number is missing"), Ok)
    }

    fn skip_line(&mut self) {
        let line = self.line();
        while self.next < self.tokens.len() && self.line() == line {
            self.next += 1;
        }
    }

    /// One thing at the level of the module.
    fn item(&mut self) -> Result<()> {
        while [".visible", ".extern", ".weak", ".common"].iter().any(|linkage| self.take_word(linkage)) {}
        let line = self.line();
        let word = self.word()?;
        match word.as_str() {
            ".version" | ".target" | ".address_size" | ".file" => {
                self.next -= 1;
                self.skip_line();
                Ok(())
            }
            ".func" => self.function(false),
            ".entry" => self.function(true),
            ".global" | ".const" => self.global(word == ".const"),
            ".shared" => {
                let variable = self.variable()?;
                let offset = if variable.is_open { OPEN } else { self.shared_bytes.next_multiple_of(variable.align) };
                if !variable.is_open {
                    self.shared_bytes = offset + variable.bytes;
                }
                self.shared.insert(variable.name, offset);
                self.expect(';')
            }
            _ => {
                self.module.odd.push(format!("{line}: {}", self.module.line(line)));
                self.skip_line();
                Ok(())
            }
        }
    }

    /// `.align 8 .b8 name[16]`, from after the space on.
    fn variable(&mut self) -> Result<Variable> {
        let mut align = None;
        let mut kind = None;
        loop {
            if self.take_word(".align") {
                align = Some(self.number()? as usize);
            } else if self.take_word(".ptr") || self.take_word(".attribute") {
                // How a pointer is used, which says nothing about the parameter.
                while matches!(self.peek_word(), Some(".global" | ".shared" | ".local" | ".const")) {
                    self.next += 1;
                }
            } else if let Some(found) = self.peek_word().and_then(|word| Type::parse(word.strip_prefix('.')?)) {
                kind = Some(found);
                self.next += 1;
            } else {
                break;
            }
        }
        let Some(kind) = kind else { return self.wrong("a type is missing") };
        let name = self.word()?;
        let (mut bytes, mut is_open) = (kind.bytes(), false);
        while self.take_mark('[') {
            if self.is_mark(']') {
                is_open = true;
            } else {
                bytes *= self.number()? as usize;
            }
            self.expect(']')?;
        }
        Ok(Variable { name, bytes, align: align.unwrap_or(kind.bytes()), kind, is_open })
    }

    fn global(&mut self, is_constant: bool) -> Result<()> {
        let variable = self.variable()?;
        let mut initial = Vec::new();
        if self.take_mark('=') {
            let braces = self.take_mark('{');
            loop {
                let negative = self.take_mark('-');
                let Some(value) = self.peek_word().and_then(number) else {
                    return self.wrong("an initial value that is no number");
                };
                self.next += 1;
                let value = if negative { value.wrapping_neg() } else { value };
                initial.extend(&value.to_le_bytes()[..variable.kind.bytes()]);
                if !self.take_mark(',') {
                    break;
                }
            }
            if braces {
                self.expect('}')?;
            }
        }
        self.expect(';')?;
        // What is declared and then defined is the same.
        let Variable { name, bytes, align, .. } = variable;
        let global = Global { name: name.clone(), bytes, align, initial, is_constant };
        match self.globals.get(&name) {
            Some(&index) => self.module.globals[index as usize] = global,
            None => {
                self.globals.insert(name, self.module.globals.len() as u32);
                self.module.globals.push(global);
            }
        }
        Ok(())
    }

    fn parameters(&mut self, body: &mut Body) -> Result<Vec<(Variable, (usize, usize))>> {
        let mut all = Vec::new();
        while !self.take_mark(')') {
            if !self.take_word(".param") {
                return self.wrong("a parameter is missing");
            }
            let variable = self.variable()?;
            let place = body.parameter(&variable);
            all.push((variable, place));
            self.take_mark(',');
        }
        Ok(all)
    }

    fn function(&mut self, is_kernel: bool) -> Result<()> {
        let mut body = Body { scopes: vec![HashMap::new()], shared_bytes: self.shared_bytes, ..Body::default() };
        let results = if self.take_mark('(') { self.parameters(&mut body)? } else { Vec::new() };
        let name = self.word()?;
        // The parameters of a kernel are what a launch gives, from 0 on.
        let parameters = if self.take_mark('(') { self.parameters(&mut body)? } else { Vec::new() };
        body.function.name = name.clone();
        let places = |list: &[(Variable, (usize, usize))]| list.iter().map(|(_, place)| *place).collect();
        (body.function.parameters, body.function.results) = (places(&parameters), places(&results));
        let parameter_bytes = body.function.parameter_space;

        let mut max_threads = None;
        while let Some(directive) = self.peek_word().map(str::to_owned) {
            self.next += 1;
            match directive.as_str() {
                ".maxntid" | ".reqntid" => {
                    let mut threads = self.number()?;
                    while self.take_mark(',') {
                        threads *= self.number()?;
                    }
                    max_threads = Some(threads as u32);
                }
                ".minnctapersm" | ".maxnreg" | ".maxnctapersm" => drop(self.number()?),
                ".noreturn" => {}
                _ => return self.wrong("a directive that is not known"),
            }
        }
        let index = *self.functions.entry(name.clone()).or_insert_with(|| {
            self.module.functions.push(Function { name: name.clone(), ..Function::default() });
            self.module.functions.len() as u32 - 1
        });
        if self.take_mark(';') {
            let declared = &mut self.module.functions[index as usize];
            if declared.code.is_none() {
                *declared = body.function;
            }
            return Ok(());
        }
        self.expect('{')?;
        self.body(&mut body)?;
        let code = self.resolve(&body)?;
        body.function.code = Some(code);
        if is_kernel {
            let parameter = |(variable, (offset, bytes)): &(Variable, (usize, usize))| Parameter {
                offset: *offset,
                bytes: *bytes,
                align: variable.align,
            };
            self.module.kernels.push(Kernel {
                name,
                parameters: parameters.iter().map(parameter).collect(),
                parameter_bytes,
                static_shared_bytes: body.shared_bytes,
                max_threads,
                function: index as usize,
            });
        }
        self.module.functions[index as usize] = body.function;
        Ok(())
    }

    fn body(&mut self, body: &mut Body) -> Result<()> {
        loop {
            if self.take_mark('{') {
                body.scopes.push(HashMap::new());
            } else if self.take_mark('}') {
                body.scopes.pop();
                if body.scopes.is_empty() {
                    return Ok(());
                }
            } else if self.next >= self.tokens.len() {
                return self.wrong("a function that does not end");
            } else {
                self.statement(body)?;
            }
        }
    }

    fn statement(&mut self, body: &mut Body) -> Result<()> {
        // A label.
        if let (Some(Token::Word(name)), Some((_, Token::Mark(':')))) = (self.peek(), self.tokens.get(self.next + 1)) {
            let name = name.clone();
            self.next += 2;
            if self.take_word(".branchtargets") {
                let mut targets = vec![self.word()?];
                while self.take_mark(',') {
                    targets.push(self.word()?);
                }
                body.tables.insert(name, targets);
                return self.expect(';');
            }
            body.labels.insert(name, body.code.len() as u32);
            return Ok(());
        }
        match self.peek_word() {
            Some(".loc") => {
                self.skip_line();
                Ok(())
            }
            Some(word @ (".reg" | ".param" | ".local" | ".shared" | ".pragma")) => {
                let word = word.to_owned();
                self.next += 1;
                self.declaration(&word, body)
            }
            _ => self.instruction(body),
        }
    }

    fn declaration(&mut self, space: &str, body: &mut Body) -> Result<()> {
        match space {
            ".reg" => {
                self.next += 1; // the type: registers hold any
                loop {
                    let name = self.word()?;
                    if self.take_mark('<') {
                        let count = self.number()?;
                        self.expect('>')?;
                        (0..count).for_each(|i| body.register(format!("{name}{i}")));
                    } else {
                        body.register(name);
                    }
                    if !self.take_mark(',') {
                        break;
                    }
                }
            }
            ".pragma" => self.next += 1,
            ".param" => {
                let variable = self.variable()?;
                body.parameter(&variable);
            }
            ".local" => {
                let variable = self.variable()?;
                let offset = body.function.local_bytes.next_multiple_of(variable.align);
                body.function.local_bytes = offset + variable.bytes;
                body.add(variable.name, Named::Local(offset));
            }
            _ => {
                let variable = self.variable()?;
                let offset = if variable.is_open { OPEN } else { body.shared_bytes.next_multiple_of(variable.align) };
                if !variable.is_open {
                    body.shared_bytes = offset + variable.bytes;
                }
                body.add(variable.name, Named::Shared(offset));
            }
        }
        self.expect(';')
    }

    fn instruction(&mut self, body: &mut Body) -> Result<()> {
        let line = self.line();
        let guard = if self.take_mark('@') {
            let negated = self.take_mark('!');
            let name = self.word()?;
            match body.find(&name) {
                Some(Named::Register(register)) => Some((register, negated)),
                _ => return self.wrong("no such predicate"),
            }
        } else {
            None
        };
        let name = self.word()?;
        let mut operands = Vec::new();
        while !self.take_mark(';') {
            operands.push(self.operand(body)?);
            if !self.take_mark(',') && !self.is_mark(';') {
                return self.wrong("`,` is missing");
            }
        }
        let names: Vec<String> = operands.iter().filter_map(Written::name).collect();
        let op = if name == "call" || name.starts_with("call.") {
            self.call(&operands, body)
        } else {
            decode(&name, &operands).ok_or(())
        };
        let op = op.unwrap_or_else(|()| Op::Unknown(self.module.line(line).to_owned()));
        body.code.push((Instruction { guard, op, line }, names));
        Ok(())
    }

    /// `call (result), function, (arguments)`
    fn call(&mut self, operands: &[Written], body: &Body) -> std::result::Result<Op, ()> {
        let places = |names: &[String]| {
            let place = |name: &String| match body.find(name) {
                Some(Named::Parameter(offset, bytes)) => Ok((offset, bytes)),
                _ => Err(()),
            };
            names.iter().map(place).collect::<std::result::Result<Vec<_>, ()>>()
        };
        let (results, rest) = match operands {
            [Written::Group(results), rest @ ..] => (places(results)?, rest),
            rest => (Vec::new(), rest),
        };
        let (name, arguments) = match rest {
            [Written::Name(name)] => (name, Vec::new()),
            [Written::Name(name), Written::Group(arguments)] => (name, places(arguments)?),
            _ => return Err(()),
        };
        let function = *self.functions.get(name).ok_or(())?;
        Ok(Op::Call { function, arguments, results })
    }

    fn operand(&mut self, body: &Body) -> Result<Written> {
        if self.take_mark('[') {
            let base = self.simple(body)?;
            let mut offset = self.offset()?;
            self.expect(']')?;
            let base = match base {
                Written::Plain(Operand::Constant(value)) => {
                    offset = offset.wrapping_add(value as i64);
                    Operand::Constant(0)
                }
                Written::Plain(base) => base,
                _ => return self.wrong("no such address"),
            };
            return Ok(Written::At(Address { base, offset }));
        }
        if self.take_mark('{') {
            let mut all = Vec::new();
            while !self.take_mark('}') {
                match self.simple(body)? {
                    Written::Plain(operand) => all.push(Some(operand)),
                    Written::Nobody => all.push(None),
                    _ => return self.wrong("no such operand"),
                }
                self.take_mark(',');
            }
            return Ok(Written::Several(all));
        }
        if self.take_mark('(') {
            let mut names = Vec::new();
            while !self.take_mark(')') {
                names.push(self.word()?);
                self.take_mark(',');
            }
            return Ok(Written::Group(names));
        }
        let first = self.simple(body)?;
        if self.take_mark('|') {
            let second = self.simple(body)?;
            return Ok(Written::Pair(first.register(), second.register()));
        }
        if let Written::Plain(Operand::Global(variable, 0)) = first {
            return Ok(Written::Plain(Operand::Global(variable, self.offset()?)));
        }
        Ok(first)
    }

    fn offset(&mut self) -> Result<i64> {
        let negative = if self.take_mark('+') {
            self.take_mark('-')
        } else if self.take_mark('-') {
            true
        } else {
            return Ok(0);
        };
        let value = self.number()? as i64;
        Ok(if negative { -value } else { value })
    }

    fn simple(&mut self, body: &Body) -> Result<Written> {
        if self.take_mark('!') {
            let name = self.word()?;
            return match body.find(&name) {
                Some(Named::Register(register)) => Ok(Written::Plain(Operand::Not(register))),
                _ => self.wrong("no such predicate"),
            };
        }
        if self.take_mark('-') {
            return Ok(Written::Plain(Operand::Constant(self.number()?.wrapping_neg())));
        }
        let name = self.word()?;
        if name == "_" {
            return Ok(Written::Nobody);
        }
        let plain = match body.find(&name) {
            Some(Named::Register(register)) => Operand::Register(register),
            Some(Named::Parameter(offset, _)) => Operand::Parameter(offset as i64),
            Some(Named::Local(offset)) => Operand::Local(offset as i64),
            Some(Named::Shared(offset)) => shared(offset),
            None => match (self.globals.get(&name), self.shared.get(&name), special(&name), number(&name)) {
                (Some(&variable), ..) => Operand::Global(variable, 0),
                (_, Some(&offset), ..) => shared(offset),
                (.., Some(special), _) => Operand::Special(special),
                (.., Some(value)) => Operand::Constant(value),
                _ => return Ok(Written::Name(name)),
            },
        };
        Ok(Written::Plain(plain))
    }

    /// Labels become places in the code.
    fn resolve(&self, body: &Body) -> Result<Vec<Instruction>> {
        let place = |name: &String, line: u32| {
            let wrong = || Fault::new(Kind::Syntax, format!("line {line}: no label {name}"));
            body.labels.get(name).copied().ok_or_else(wrong)
        };
        let resolve = |(instruction, names): &(Instruction, Vec<String>)| {
            let mut instruction = instruction.clone();
            match &mut instruction.op {
                Op::Branch { target } => *target = place(&names[0], instruction.line)?,
                Op::BranchTable { targets, .. } => {
                    let Some(table) = names.first().and_then(|name| body.tables.get(name)) else {
                        return Err(Fault::new(Kind::Syntax, format!("line {}: no table", instruction.line)));
                    };
                    *targets = table.iter().map(|name| place(name, instruction.line)).collect::<Result<_>>()?;
                }
                _ => {}
            }
            Ok(instruction)
        };
        body.code.iter().map(resolve).collect()
    }
}

/// The offset of what lies in the memory that a launch gives.
const OPEN: usize = usize::MAX;

fn shared(offset: usize) -> Operand {
    if offset == OPEN { Operand::DynamicShared(0) } else { Operand::Constant(offset as u64) }
}

impl Written {
    fn name(&self) -> Option<String> {
        match self {
            Written::Name(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// The register that it names.
    pub fn register(&self) -> Option<u32> {
        match self {
            Written::Plain(Operand::Register(register)) => Some(*register),
            _ => None,
        }
    }

    /// Its value's source.
    pub fn plain(&self) -> Option<Operand> {
        match self {
            Written::Plain(operand) => Some(*operand),
            _ => None,
        }
    }
}

/// Whole numbers, and floats as their bits.
fn number(word: &str) -> Option<u64> {
    let unsigned = word.strip_suffix('U').unwrap_or(word);
    if let Some(hex) = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    if let Some(bits) = word.strip_prefix("0f").or(word.strip_prefix("0F")).filter(|bits| bits.len() == 8) {
        return u64::from_str_radix(bits, 16).ok();
    }
    if let Some(bits) = word.strip_prefix("0d").or(word.strip_prefix("0D")).filter(|bits| bits.len() == 16) {
        return u64::from_str_radix(bits, 16).ok();
    }
    unsigned.parse().ok()
}

fn special(name: &str) -> Option<Special> {
    use crate::instruction::LaneMask::*;
    let axis = |name: &str| Some(["x", "y", "z"].iter().position(|axis| *axis == name)? as u8);
    Some(match name.strip_prefix('%')?.split_once('.') {
        Some(("tid", rest)) => Special::Thread(axis(rest)?),
        Some(("ntid", rest)) => Special::Threads(axis(rest)?),
        Some(("ctaid", rest)) => Special::Block(axis(rest)?),
        Some(("nctaid", rest)) => Special::Blocks(axis(rest)?),
        Some(_) => return None,
        None => match name {
            "%laneid" => Special::Lane,
            "%warpid" => Special::Warp,
            "%clock" | "%clock64" => Special::Clock,
            "%globaltimer" | "%globaltimer_lo" => Special::GlobalTimer,
            "%smid" => Special::Processor,
            "%dynamic_smem_size" => Special::DynamicSharedBytes,
            "%lanemask_eq" => Special::LaneMask(Equal),
            "%lanemask_lt" => Special::LaneMask(Less),
            "%lanemask_le" => Special::LaneMask(LessEqual),
            "%lanemask_gt" => Special::LaneMask(Greater),
            "%lanemask_ge" => Special::LaneMask(GreaterEqual),
            "WARP_SZ" => Special::WarpThreads,
            _ => return None,
        },
    })
}
