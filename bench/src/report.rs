//! A table for people, or an object a line for programs.

pub struct Report {
    json: bool,
}

pub enum Value {
    Text(String),
    Number(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number as f64)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::Number(number as f64)
    }
}

impl Report {
    pub fn new(json: bool) -> Report {
        Report { json }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// One measurement: names and values in the order they are read.
    pub fn row(&mut self, fields: &[(&str, Value)]) {
        let cells = fields.iter().map(|(name, value)| match (self.json, value) {
            (true, Value::Text(text)) => format!("\"{name}\":\"{text}\""),
            (true, Value::Number(number)) => format!("\"{name}\":{}", round(*number)),
            (false, Value::Text(text)) => format!("{text:<14}"),
            (false, Value::Number(number)) => format!("{name} {:<10}", round(*number)),
        });
        let cells: Vec<String> = cells.collect();
        if self.json {
            println!("{{{}}}", cells.join(","));
        } else {
            println!("{}", cells.join(" "));
        }
    }
}

fn round(number: f64) -> f64 {
    let scale = if number < 10.0 { 1000.0 } else { 10.0 };
    (number * scale).round() / scale
}
