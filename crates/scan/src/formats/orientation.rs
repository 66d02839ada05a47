//! Images as people see them: Exif and TIFF orientation, tag 274.

/// Numbers of a rectangle in an orientation of 1 to 8, and its new width and height; any other changes nothing.
pub(crate) fn turned<T: Copy>(
    values: Vec<T>,
    (width, height): (usize, usize),
    orientation: u64,
) -> (Vec<T>, (usize, usize)) {
    if !(2..=8).contains(&orientation) || values.is_empty() {
        return (values, (width, height));
    }
    let size = if orientation < 5 { (width, height) } else { (height, width) };
    let from = |x: usize, y: usize| match orientation {
        2 => (width - 1 - x, y),
        3 => (width - 1 - x, height - 1 - y),
        4 => (x, height - 1 - y),
        5 => (y, x),
        6 => (y, height - 1 - x),
        7 => (width - 1 - y, height - 1 - x),
        _ => (width - 1 - y, x),
    };
    let value = |(x, y)| {
        let (x, y) = from(x, y);
        values[y * width + x]
    };
    let places = (0..size.1).flat_map(|y| (0..size.0).map(move |x| (x, y)));
    (places.map(value).collect(), size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_orientations_match_exif() {
        // The letter F, as in the pictures of the Exif standard.
        let upright = ["###", "#..", "##.", "#.."];
        let stored = [
            (2, vec!["###", "..#", ".##", "..#"]),
            (3, vec!["..#", ".##", "..#", "###"]),
            (4, vec!["#..", "##.", "#..", "###"]),
            (5, vec!["####", "#.#.", "#..."]),
            (6, vec!["#...", "#.#.", "####"]),
            (7, vec!["...#", ".#.#", "####"]),
            (8, vec!["####", ".#.#", "...#"]),
        ];
        for (orientation, rows) in stored {
            let size = (rows[0].len(), rows.len());
            let (seen, size) = turned(rows.concat().into_bytes(), size, orientation);
            assert_eq!((seen, size), (upright.concat().into_bytes(), (3, 4)), "{orientation}");
        }
    }
}
