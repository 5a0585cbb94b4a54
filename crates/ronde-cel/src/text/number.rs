//! Numbers as the real server writes them in messages and as rules see them.

/// The shortest text that reads back as `value`, with an exponent from 1e6 on.
pub fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("this form has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Seconds with as many decimals as needed, as durations are written.
pub fn seconds(nanoseconds: i64) -> String {
    let (sign, magnitude) = (if nanoseconds < 0 { "-" } else { "" }, nanoseconds.unsigned_abs());
    let (whole, fraction) = (magnitude / 1_000_000_000, magnitude % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{whole}s");
    }
    let digits = format!("{fraction:09}");
    format!("{sign}{whole}.{}s", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_show() {
        let check = |value: f64, expected: &str| assert_eq!(shortest(value), expected, "{value}");
        check(1.0, "1");
        check(1.5, "1.5");
        check(-0.25, "-0.25");
        check(123_456.0, "123456");
        check(1e6, "1e+06");
        check(2_000_000.5, "2.0000005e+06");
        check(1_073_741_824.0, "1.073741824e+09");
        check(1e21, "1e+21");
        check(1.5e-7, "1.5e-07");
        check(0.0001, "0.0001");
        check(f64::INFINITY, "+Inf");
        assert_eq!(seconds(5_400_000_000_000), "5400s");
        assert_eq!(seconds(-1_500_000_000), "-1.5s");
    }
}
