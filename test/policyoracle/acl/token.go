package acl

import (
	"fmt"
	"strings"
)

type kind int

const (
	end      kind = iota
	word          // ip4.src, 80, 10.0.0.0/8, fd00::1
	str           // "demo_web-0"
	set           // $name
	group         // @name
	operator      // && || ! ( ) { } , == != < <= > >=
)

type token struct {
	kind kind
	text string
}

func (t token) String() string {
	if t.kind == end {
		return "the end"
	}
	return fmt.Sprintf("%q", t.text)
}

// operators are in the order in which they are tried.
var operators = []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "{", "}", ","}

func tokens(text string) (all []token, err error) {
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		t, n, err := next(rest)
		if err != nil {
			return nil, err
		}
		all, rest = append(all, t), rest[n:]
	}
	return all, nil
}

// next returns the next token and its length.
func next(text string) (token, int, error) {
	for _, o := range operators {
		if strings.HasPrefix(text, o) {
			return token{operator, o}, len(o), nil
		}
	}
	switch text[0] {
	case '"':
		inside, _, closed := strings.Cut(text[1:], `"`)
		if !closed {
			return token{}, 0, fmt.Errorf("a string has no end: %s", text)
		}
		return token{str, inside}, len(inside) + 2, nil
	case '$', '@':
		name := text[1 : 1+wordLength(text[1:])]
		if name == "" {
			return token{}, 0, fmt.Errorf("no name after %c", text[0])
		}
		return token{map[byte]kind{'$': set, '@': group}[text[0]], name}, len(name) + 1, nil
	}
	if n := wordLength(text); n > 0 {
		return token{word, text[:n]}, n, nil
	}
	return token{}, 0, fmt.Errorf("unexpected %q in a match", text[0])
}

func wordLength(text string) int {
	for i, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("._:/-[]", c) {
			return i
		}
	}
	return len(text)
}
