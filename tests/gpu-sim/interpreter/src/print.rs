//! `printf` of kernels.

use crate::instruction::Space;
use crate::memory::{View, Wrong, from_bytes};

/// The text of a call of `vprintf`: its arguments are the addresses of the format and of what it formats.
pub fn format(view: &mut View, arguments: &[Vec<u8>]) -> Result<String, Wrong> {
    let address = |index: usize| arguments.get(index).map_or(0, |bytes| from_bytes(bytes));
    let format = string(view, address(0))?;
    let mut values = address(1);
    let mut next = |view: &mut View, bytes: u64| {
        let at = values.next_multiple_of(bytes);
        values = at + bytes;
        let mut value = [0];
        view.load(Space::Generic, at, bytes as usize, &mut value).map(|()| value[0])
    };
    let mut text = String::new();
    let mut rest = format.as_str();
    while let Some((before, after)) = rest.split_once('%') {
        text += before;
        let end = after.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'l' | 'z' | 'h') || c == '%');
        let Some(end) = end else { break };
        let long = after[..end].contains(['l', 'z']);
        let bytes = if long { 8 } else { 4 };
        match &after[end..=end] {
            "%" => text.push('%'),
            "d" | "i" if long => text += &(next(view, 8)? as i64).to_string(),
            "d" | "i" => text += &(next(view, 4)? as i32).to_string(),
            "u" => text += &next(view, bytes)?.to_string(),
            "x" | "X" => text += &format!("{:x}", next(view, bytes)?),
            "c" => text.extend(char::from_u32(next(view, 4)? as u32)),
            "p" => text += &format!("{:#x}", next(view, 8)?),
            "s" => {
                let at = next(view, 8)?;
                text += &string(view, at)?;
            }
            _ => text += &f64::from_bits(next(view, 8)?).to_string(),
        }
        rest = &after[end + 1..];
    }
    Ok(text + rest)
}

fn string(view: &mut View, mut at: u64) -> Result<String, Wrong> {
    let mut bytes = Vec::new();
    loop {
        let mut byte = [0];
        view.load(Space::Generic, at, 1, &mut byte)?;
        if byte[0] == 0 {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        bytes.push(byte[0] as u8);
        at += 1;
    }
}
