//! The clock of the launcher: read here and nowhere else.

/// The time of day in this place, as C's `asctime` writes it.
#[expect(clippy::disallowed_methods, reason = "this is the place where the clock is read")]
pub fn time_of_day() -> String {
    jiff::Zoned::now().strftime("%a %b %e %H:%M:%S %Y").to_string()
}
