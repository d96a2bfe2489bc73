//! Tables for people: columns that line up, and none that is empty.

/// Rows under headings.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// A heading, and on which side its cells line up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    name: &'static str,
    is_number: bool,
}

/// A column of words.
pub(crate) const fn words(name: &'static str) -> Column {
    Column { name, is_number: false }
}

/// A column of figures.
pub(crate) const fn figures(name: &'static str) -> Column {
    Column { name, is_number: true }
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// A row, with a cell for each column.
    pub(crate) fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.iter().map(|cell| plain(cell)).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Only the first cells: the ids.
    pub(crate) fn first_column(&self) -> String {
        self.rows.iter().filter_map(|row| row.first()).map(|cell| format!("{cell}\n")).collect()
    }

    /// All of it, two spaces between columns and none behind the last.
    pub(crate) fn text(&self) -> String {
        let cell =
            |row: &'_ [String], at: usize| row.get(at).map_or(0, |cell| cell.chars().count());
        let filled: Vec<(usize, Column, usize)> = (0..)
            .zip(&self.columns)
            .map(|(at, column)| {
                let widest = self.rows.iter().map(|row| cell(row, at)).max().unwrap_or(0);
                (at, *column, widest)
            })
            .filter(|(_, _, widest)| *widest > 0)
            .map(|(at, column, widest)| (at, column, widest.max(column.name.len())))
            .collect();
        let headings: Vec<String> = self.columns.iter().map(|one| one.name.to_owned()).collect();
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for (at, column, width) in &filled {
                let value = row.get(*at).map_or("", String::as_str);
                if !line.is_empty() {
                    line.push_str("  ");
                }
                let room = " ".repeat(width.saturating_sub(value.chars().count()));
                if column.is_number {
                    line.push_str(&room);
                    line.push_str(value);
                } else {
                    line.push_str(value);
                    line.push_str(&room);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Names and their values, one a line.
pub(crate) fn pairs(all: &[(String, String)]) -> String {
    let widest = all.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let line = |(name, value): &(String, String)| format!("{name:widest$}  {}\n", plain(value));
    all.iter().map(line).collect()
}

/// Without anything that would steer a terminal: names are chosen by others.
pub(crate) fn plain(text: &str) -> String {
    let is_safe = |c: char| {
        !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .flat_map(|c| {
            let (kept, escaped) =
                if is_safe(c) { (Some(c), None) } else { (None, Some(c.escape_unicode())) };
            kept.into_iter().chain(escaped.into_iter().flatten())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let mut table = Table::new(&[words("TENANT"), words("PLAN"), figures("REQUESTS")]);
        table.row(&["acme".into(), String::new(), "7".into()]);
        table.row(&["über-long-name".into(), String::new(), "1234567890".into()]);
        assert_eq!(
            table.text(),
            "TENANT            REQUESTS\nacme                     7\nüber-long-name  1234567890\n"
        );
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\u{202e}"), "a\\u{1b}[31mb\\u{202e}");
    }
}
