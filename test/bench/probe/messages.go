package probe

import "bytes"

// messages splits a stream of JSON objects without decoding them, because a whole copy of a database is one message
// of many megabytes.
type messages struct {
	depth           int
	inText, escaped bool
	size            int64
	first           [edge]byte // the beginning of the message, as far as received
	last            [edge]byte // a ring of its latest bytes
	whole           func(ends)
}

// edge is how many bytes of a message are kept at each end. Its type is at one of the ends, outside its contents.
const edge = 128

// ends is the kept part of one message.
type ends struct {
	size        int64
	first, last []byte
}

// has reports whether one of the ends holds the text.
func (m ends) has(text string) bool {
	return bytes.Contains(m.first, []byte(text)) || bytes.Contains(m.last, []byte(text))
}

func (s *messages) take(chunk []byte) {
	for _, b := range chunk {
		if s.depth == 0 && b != '{' {
			continue // white space between messages
		}
		if s.size < edge {
			s.first[s.size] = b
		}
		s.last[s.size%edge] = b
		s.size++
		switch {
		case s.escaped:
			s.escaped = false
		case s.inText:
			s.escaped, s.inText = b == '\\', b != '"'
		case b == '"':
			s.inText = true
		case b == '{':
			s.depth++
		case b == '}':
			if s.depth--; s.depth == 0 {
				s.end()
			}
		}
	}
}

func (s *messages) end() {
	m := ends{size: s.size, first: bytes.Clone(s.first[:min(s.size, edge)])}
	if from := s.size % edge; s.size > edge {
		m.last = append(bytes.Clone(s.last[from:]), s.last[:from]...)
	}
	s.size = 0
	s.whole(m)
}
