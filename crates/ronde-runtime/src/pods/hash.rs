//! Short names for contents: the suffix of replica sets and controller revisions.
//!
//! The letters are those of Kubernetes; the hash is of the JSON, so the values differ from those of a cluster, which
//! nothing may rely on.

use serde::Serialize;

const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const FNV_OFFSET: u32 = 2_166_136_261;
const FNV_PRIME: u32 = 16_777_619;

/// Returns a name of up to ten letters for a content; `collisions` makes it another one.
pub fn name<T: Serialize>(content: &T, collisions: Option<i32>) -> String {
    let json = serde_json::to_vec(content).expect("an object of the API is JSON");
    let collisions = collisions.map(i32::to_le_bytes);
    let bytes = json.iter().chain(collisions.iter().flatten());
    let hash = bytes.fold(FNV_OFFSET, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME));
    hash.to_string().bytes().map(letter).collect()
}

fn letter(digit: u8) -> char {
    char::from(LETTERS[usize::from(digit) % LETTERS.len()])
}
