package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Screen is the output for people.
type Screen struct {
	io.Writer
	Color bool // escape sequences, which only a terminal understands
}

// style is an SGR parameter (ECMA-48 §8.3.117); empty is plain.
type style string

const (
	plain style = ""
	bold  style = "1"
	faint style = "2"
	red   style = "31"
	green style = "32"
)

func (s Screen) paint(with style, text string) string {
	if !s.Color || with == plain || text == "" {
		return text
	}
	return "\x1b[" + string(with) + "m" + text + "\x1b[0m"
}

// title begins a section of the output.
func (s Screen) title(format string, args ...any) {
	fmt.Fprintf(s, "\n%s\n\n", s.paint(bold, fmt.Sprintf(format, args...)))
}

// cell is a cell of a table.
type cell struct {
	text  string
	style style
	right bool // numbers
}

// text returns plain cells.
func text(words ...string) []cell {
	var cells []cell
	for _, w := range words {
		cells = append(cells, cell{text: w})
	}
	return cells
}

// table prints rows in columns as wide as their widest cell. A row may be shorter than others.
func (s Screen) table(rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		fmt.Fprintln(s, s.line(row, widths))
	}
}

func (s Screen) line(row []cell, widths []int) string {
	var line strings.Builder
	gap := ""
	for i, c := range row {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
		if c.right {
			line.WriteString(gap + pad)
			gap = "  "
		} else {
			line.WriteString(gap)
			gap = pad + "  " // not after the last cell
		}
		line.WriteString(s.paint(c.style, c.text))
	}
	return line.String()
}
