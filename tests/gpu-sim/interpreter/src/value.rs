//! Types, and arithmetic on values of them. A register holds 64 bits, of which a type uses the low ones.

use crate::instruction::{Compare, Compute};

/// How bits are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Unsigned,
    Signed,
    Float,
    Predicate,
}

/// A type of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    pub meaning: Meaning,
    pub bits: u32,
}

impl Type {
    /// From its name in an instruction, as `u32`. Bits without a meaning are unsigned.
    pub fn parse(name: &str) -> Option<Type> {
        if name == "pred" {
            return Some(Type { meaning: Meaning::Predicate, bits: 1 });
        }
        let meaning = match name.get(..1)? {
            "u" | "b" => Meaning::Unsigned,
            "s" => Meaning::Signed,
            "f" => Meaning::Float,
            _ => return None,
        };
        let bits = name[1..].parse().ok().filter(|bits| [8, 16, 32, 64].contains(bits))?;
        Some(Type { meaning, bits })
    }

    pub fn bytes(self) -> usize {
        (self.bits as usize).div_ceil(8)
    }

    /// The bits of a value, the rest 0.
    pub fn cut(self, value: u64) -> u64 {
        cut(value, self.bits)
    }

    /// The value as a number of 64 bits, with its sign.
    pub fn extend(self, value: u64) -> u64 {
        match self.meaning {
            Meaning::Signed => signed(value, self.bits) as u64,
            _ => self.cut(value),
        }
    }

    fn is_signed(self) -> bool {
        self.meaning == Meaning::Signed
    }

    fn is_float(self) -> bool {
        self.meaning == Meaning::Float
    }

    /// A float of either length as the longer one: exact.
    pub fn float(self, value: u64) -> f64 {
        if self.bits == 32 { f32::from_bits(value as u32) as f64 } else { f64::from_bits(value) }
    }

    /// The bits of a float, rounded to nearest.
    pub fn float_bits(self, value: f64) -> u64 {
        if self.bits == 32 { (value as f32).to_bits() as u64 } else { value.to_bits() }
    }
}

fn cut(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// The low bits of a value as a number with sign.
pub fn signed(value: u64, bits: u32) -> i64 {
    let shift = 64 - bits.min(64);
    ((value << shift) as i64) >> shift
}

/// The result of an instruction, or `None` where this combination does not exist.
pub fn compute(what: Compute, kind: Type, a: u64, b: u64, c: u64) -> Option<u64> {
    if kind.is_float() {
        return float(what, kind, a, b, c);
    }
    let (x, y) = (kind.extend(a), kind.extend(b));
    let bits = kind.bits;
    let product = || match kind.is_signed() {
        true => (x as i64 as i128 * y as i64 as i128) as u128,
        false => x as u128 * y as u128,
    };
    let shift = cut(b, 32);
    let value = match what {
        Compute::Add => x.wrapping_add(y),
        Compute::Sub => x.wrapping_sub(y),
        Compute::MulLow => x.wrapping_mul(y),
        Compute::MulHigh => (product() >> bits) as u64,
        Compute::MulWide => return Some(cut(product() as u64, 2 * bits)),
        Compute::MadLow => x.wrapping_mul(y).wrapping_add(c),
        Compute::MadHigh => ((product() >> bits) as u64).wrapping_add(c),
        Compute::MadWide => return Some(cut((product() as u64).wrapping_add(c), 2 * bits)),
        // A GPU gives something without a meaning; here it is always the same.
        Compute::Div | Compute::Rem if y == 0 => u64::MAX,
        Compute::Div if kind.is_signed() => (x as i64).wrapping_div(y as i64) as u64,
        Compute::Div => x / y,
        Compute::Rem if kind.is_signed() => (x as i64).wrapping_rem(y as i64) as u64,
        Compute::Rem => x % y,
        Compute::Min if kind.is_signed() => (x as i64).min(y as i64) as u64,
        Compute::Min => x.min(y),
        Compute::Max if kind.is_signed() => (x as i64).max(y as i64) as u64,
        Compute::Max => x.max(y),
        Compute::Abs => (x as i64).wrapping_abs() as u64,
        Compute::Neg => x.wrapping_neg(),
        Compute::Not => !x,
        Compute::LogicalNot => (x == 0) as u64,
        Compute::And => x & y,
        Compute::Or => x | y,
        Compute::Xor => x ^ y,
        Compute::ShiftLeft => {
            if shift >= bits as u64 {
                0
            } else {
                x << shift
            }
        }
        Compute::ShiftRight if kind.is_signed() => ((x as i64) >> shift.min(63)) as u64,
        Compute::ShiftRight => {
            if shift >= bits as u64 {
                0
            } else {
                x >> shift
            }
        }
        Compute::FunnelLeft { clamps } | Compute::FunnelRight { clamps } => {
            let both = cut(b, 32) << 32 | cut(a, 32);
            let by = if clamps { cut(c, 32).min(32) } else { c & 31 };
            match what {
                Compute::FunnelLeft { .. } => ((both as u128) << by >> 32) as u64,
                _ => both >> by,
            }
        }
        Compute::PopulationCount => kind.cut(a).count_ones() as u64,
        Compute::LeadingZeros => (kind.cut(a).leading_zeros() - (64 - bits)) as u64,
        Compute::Reverse => kind.cut(a).reverse_bits() >> (64 - bits),
        Compute::BitExtract => {
            let (position, length) = ((b & 255) as u32, (c & 255) as u32);
            if length == 0 {
                0
            } else if kind.is_signed() {
                // Above the value its sign goes on.
                let above = position.min(63);
                signed((x as i64 >> above) as u64, length.min(64)) as u64
            } else {
                cut(if position >= bits { 0 } else { x >> position }, length)
            }
        }
        Compute::Permute => permute(a as u32, b as u32, c as u32),
        Compute::Select => {
            if c & 1 != 0 {
                a
            } else {
                b
            }
        }
        Compute::Fma => return None,
    };
    Some(kind.cut(value))
}

fn float(what: Compute, kind: Type, a: u64, b: u64, c: u64) -> Option<u64> {
    let (x, y, z) = (kind.float(a), kind.float(b), kind.float(c));
    // Rounding the longer sum or product once more gives the same as rounding once.
    Some(kind.float_bits(match what {
        Compute::Add => x + y,
        Compute::Sub => x - y,
        Compute::MulLow => x * y,
        Compute::Div => x / y,
        Compute::Min => x.min(y),
        Compute::Max => x.max(y),
        Compute::Abs => x.abs(),
        Compute::Neg => -x,
        Compute::Fma if kind.bits == 32 => f32::mul_add(x as f32, y as f32, z as f32) as f64,
        Compute::Fma => x.mul_add(y, z),
        Compute::Select => return Some(if c & 1 != 0 { a } else { b }),
        _ => return None,
    }))
}

/// Four bytes chosen from eight.
fn permute(a: u32, b: u32, selector: u32) -> u64 {
    let bytes = (b as u64) << 32 | a as u64;
    (0..4).fold(0, |all, i| {
        let chosen = selector >> (4 * i) & 15;
        let byte = bytes >> (8 * (chosen & 7)) & 255;
        let byte = if chosen & 8 == 0 {
            byte
        } else if byte & 128 == 0 {
            0
        } else {
            255
        };
        all | byte << (8 * i)
    })
}

/// Whether the two compare so.
pub fn compare(how: Compare, kind: Type, a: u64, b: u64) -> bool {
    use std::cmp::Ordering;
    let order = if kind.is_float() {
        kind.float(a).partial_cmp(&kind.float(b))
    } else if kind.is_signed() {
        Some((kind.extend(a) as i64).cmp(&(kind.extend(b) as i64)))
    } else {
        Some(kind.cut(a).cmp(&kind.cut(b)))
    };
    let Some(order) = order else { return how == Compare::NotEqual };
    match how {
        Compare::Equal => order == Ordering::Equal,
        Compare::NotEqual => order != Ordering::Equal,
        Compare::Less => order == Ordering::Less,
        Compare::LessEqual => order != Ordering::Greater,
        Compare::Greater => order == Ordering::Greater,
        Compare::GreaterEqual => order != Ordering::Less,
    }
}

/// A value of one type as one of another.
pub fn convert(to: Type, from: Type, value: u64, saturates: bool, truncates: bool) -> u64 {
    let (least, most) = match to.is_signed() {
        true => (-1i128 << (to.bits - 1), (1i128 << (to.bits - 1)) - 1),
        false => (0, (1i128 << to.bits) - 1),
    };
    match (from.is_float(), to.is_float()) {
        (true, true) => to.float_bits(from.float(value)),
        (false, true) if from.is_signed() => float_of(to, from.extend(value) as i64 as i128),
        (false, true) => float_of(to, from.extend(value) as i128),
        (true, false) => {
            let exact = from.float(value);
            let whole = if truncates { exact.trunc() } else { exact.round_ties_even() };
            to.cut((whole as i128).clamp(least, most) as u64)
        }
        (false, false) => {
            let wide = if from.is_signed() { from.extend(value) as i64 as i128 } else { from.extend(value) as i128 };
            to.cut(if saturates { wide.clamp(least, most) } else { wide } as u64)
        }
    }
}

/// Rounded once.
fn float_of(to: Type, value: i128) -> u64 {
    if to.bits == 32 { (value as f32).to_bits() as u64 } else { (value as f64).to_bits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Type {
        Type::parse(name).expect("a type")
    }

    #[test]
    fn arithmetic_keeps_to_its_type() {
        for (what, name, [a, b, c], right) in [
            (Compute::Add, "u32", [u32::MAX as u64, 2, 0], 1),
            (Compute::Sub, "s16", [0, 1, 0], 0xffff),
            (Compute::MulHigh, "s32", [-2i32 as u32 as u64, 3, 0], u32::MAX as u64),
            (Compute::MulHigh, "u64", [u64::MAX, u64::MAX, 0], u64::MAX - 1),
            (Compute::MulWide, "s32", [-2i32 as u32 as u64, 3, 0], -6i64 as u64),
            (Compute::MadWide, "u32", [u32::MAX as u64, 2, 5], (u32::MAX as u64) * 2 + 5),
            (Compute::MadLow, "s32", [3, 5, 7], 22),
            (Compute::Div, "s32", [-7i32 as u32 as u64, 2, 0], -3i32 as u32 as u64),
            (Compute::Rem, "s64", [-7i64 as u64, 2, 0], -1i64 as u64),
            (Compute::Div, "u32", [u32::MAX as u64, 2, 0], 0x7fff_ffff),
            (Compute::Min, "s32", [u32::MAX as u64, 2, 0], u32::MAX as u64),
            (Compute::Min, "u32", [u32::MAX as u64, 2, 0], 2),
            (Compute::ShiftRight, "s32", [0x8000_0000, 40, 0], u32::MAX as u64),
            (Compute::ShiftRight, "u32", [0x8000_0000, 40, 0], 0),
            (Compute::ShiftLeft, "b32", [1, 31, 0], 0x8000_0000),
            (Compute::FunnelRight { clamps: false }, "b32", [0x1234_5678, 0x9abc_def0, 8], 0xf012_3456),
            (Compute::FunnelLeft { clamps: false }, "b32", [0x1234_5678, 0x9abc_def0, 8], 0xbcde_f012),
            (Compute::LeadingZeros, "b32", [1, 0, 0], 31),
            (Compute::Reverse, "b32", [1, 0, 0], 0x8000_0000),
            (Compute::BitExtract, "u32", [0xabcd, 4, 8], 0xbc),
            (Compute::BitExtract, "s32", [0xabcd, 4, 8], 0xffff_ffbc),
            (Compute::Permute, "b32", [0x3322_1100, 0x7766_5544, 0x7410], 0x7744_1100),
            (Compute::Select, "b64", [3, 4, 0], 4),
        ] {
            assert_eq!(compute(what, kind(name), a, b, c), Some(right), "{what:?} {name}");
        }
        let one_and_half = 1.5f32.to_bits() as u64;
        assert_eq!(
            compute(Compute::MulLow, kind("f32"), one_and_half, one_and_half, 0),
            Some(2.25f32.to_bits() as u64)
        );
        assert_eq!(compute(Compute::And, kind("f32"), 0, 0, 0), None);
    }

    #[test]
    fn values_are_converted() {
        for (to, from, value, right) in [
            ("u64", "s32", 0xffff_ffff, u64::MAX),
            ("u64", "u32", 0xffff_ffff, 0xffff_ffff),
            ("u16", "u32", 0x1_2345, 0x2345),
            ("s32", "s8", 0x80, 0xffff_ff80),
            ("u32", "f32", 2.9f32.to_bits() as u64, 2),
            ("u32", "f32", (-1f32).to_bits() as u64, 0),
            ("f32", "u64", u64::MAX, (u64::MAX as f32).to_bits() as u64),
            ("f64", "f32", 0.5f32.to_bits() as u64, 0.5f64.to_bits()),
        ] {
            assert_eq!(convert(kind(to), kind(from), value, false, true), right, "{to} {from}");
        }
        assert_eq!(convert(kind("u8"), kind("s32"), 300, true, false), 255);
    }

    #[test]
    fn comparisons_know_signs() {
        assert!(compare(Compare::Less, kind("s32"), 0xffff_ffff, 0));
        assert!(!compare(Compare::Less, kind("u32"), 0xffff_ffff, 0));
        assert!(!compare(Compare::Less, kind("f32"), f32::NAN.to_bits() as u64, 0));
        assert!(compare(Compare::GreaterEqual, kind("u64"), 5, 5));
    }
}
