package cniwire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// MaxMessage is the maximum size of a document, in bytes. A request has a few kilobytes: the configuration of a
// plugin and a previous result.
const MaxMessage = 1 << 20

// lengthSize is the size of the length in front of a document, in bytes.
const lengthSize = 4

// Write sends the length of a document and the document in a single write.
func Write(w io.Writer, document any) error {
	message, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if len(message) > MaxMessage {
		return fmt.Errorf("message of %d bytes is above the limit of %d", len(message), MaxMessage)
	}
	frame := make([]byte, lengthSize, lengthSize+len(message))
	binary.BigEndian.PutUint32(frame, uint32(len(message)))
	_, err = w.Write(append(frame, message...))
	return err
}

// Read receives a document that Write sent. It returns a *Error for anything else, and io.EOF if no byte arrives.
func Read(r io.Reader, document any) error {
	var prefix [lengthSize]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(prefix[:])
	if length > MaxMessage {
		return Errorf(CodeDecodingFailure, "message of %d bytes is above the limit of %d", length, MaxMessage)
	}
	message := make([]byte, length)
	if n, err := io.ReadFull(r, message); err != nil {
		return fmt.Errorf("message ends after %d of %d bytes: %w", n, length, err)
	}
	if err := json.Unmarshal(message, document); err != nil {
		return Errorf(CodeDecodingFailure, "decode message: %v", err)
	}
	return nil
}
