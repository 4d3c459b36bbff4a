// Package documented reads the command lines of kubectl weft in the README and the pages, so that tests can compare them with the
// program, and run them.
//
//	README.md, docs/**/*.md ──▶ Line: "kubectl weft trace FROM TO --port PORT" ──Fill──▶ arguments
package documented

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Line is a command line of a page.
type Line struct {
	// At is the file and the number of the line.
	At string
	// Text begins after "kubectl weft".
	Text string
	// Example means that the line is a line of a code block. Other lines are words in a sentence, which may name a command alone.
	Example bool
}

// Command reports the whole command line.
func (l Line) Command() string { return strings.TrimSpace("kubectl weft " + l.Text) }

// quoted matches a command line between backquotes, and block one in a line of a code block.
var (
	quoted = regexp.MustCompile("`kubectl weft((?: [^`]*)?)`")
	block  = regexp.MustCompile(`^\s*(?:\$ )?kubectl weft((?: .*)?)$`)
	// after matches where a command line ends in a shell.
	after = regexp.MustCompile(`\s(?:#|\||>|>>|&&|;)\s.*$`)
)

// Read returns the command lines below a checkout's folder.
func Read(root string) (all []Line, err error) {
	pages := []string{filepath.Join(root, "README.md")}
	walk := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	errs := []error{walk}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		errs = append(errs, err)
		all = append(all, linesOf(strings.TrimPrefix(page, root+"/"), string(text))...)
	}
	return all, errors.Join(errs...)
}

// linesOf returns the command lines of a page.
func linesOf(page, text string) (all []Line) {
	inBlock := false
	for i, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d", page, i+1)
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inBlock = !inBlock
			continue
		}
		if found := block.FindStringSubmatch(line); inBlock && found != nil && !strings.Contains(line, "──") { // a drawing
			all = append(all, Line{at, strings.TrimSpace(after.ReplaceAllString(found[1]+" ", "")), true})
		}
		if inBlock {
			continue
		}
		for _, found := range quoted.FindAllStringSubmatch(line, -1) {
			all = append(all, Line{at, strings.TrimSpace(found[1]), false})
		}
	}
	return all
}

// Fill returns the arguments of a line, with values in place of its placeholders. A word of capital letters that has no value is an
// error.
func (l Line) Fill(values map[string]string) (args []string, err error) {
	text := substituted.ReplaceAllString(strings.ReplaceAll(l.Text, "...", ""), "COMMAND-SUBSTITUTION")
	text = optional.ReplaceAllStringFunc(text, func(choice string) string { return strings.ReplaceAll(choice, " ", "") })
	for _, word := range strings.Fields(after.ReplaceAllString(text+" ", "")) {
		if value, known := values[word]; known {
			if value != "" {
				args = append(args, value)
			}
			continue
		}
		if placeholder.MatchString(word) {
			return nil, fmt.Errorf("%s: %s: %q has no value", l.At, l.Command(), word)
		}
		args = append(args, word)
	}
	return args, nil
}

var (
	// substituted matches what a shell would execute first, and optional a choice of optional words: "[A | B]".
	substituted = regexp.MustCompile(`"\$\([^"]*\)"`)
	optional    = regexp.MustCompile(`\[[^\]]*\]`)
)

// placeholder matches a word that stands for a value. "[" begins an optional word.
var placeholder = regexp.MustCompile(`^\[|(?:^|/)[A-Z]{2,}(?:/|$)`)
