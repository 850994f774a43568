// Package sealed gives a JSON object a checksum of itself, so that one that was changed
// is found out. The checksum is the last field, "crc": the CRC-32C of all bytes before
// the comma in front of it, in hexadecimal digits. Lines of event logs end alike, but
// there each checksum is of all lines so far.
package sealed

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash/crc32"
)

// A sealed object ends with opens, eight hexadecimal digits, and closes.
const (
	opens  = `"crc":"`
	closes = `"}`
	length = len(opens) + 2*crc32.Size + len(closes)
)

// ErrChanged is the error of an object whose checksum is wrong.
var ErrChanged = errors.New("the checksum is wrong: it was changed since it was written")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal adds the checksum to a JSON object. It may change and return the object's memory.
func Seal(object []byte) []byte {
	whole := bytes.TrimRight(object, " \n")
	head := bytes.TrimRight(whole[:len(whole)-len("}")], " \n")
	sum := crc32.Checksum(head, castagnoli)
	if len(head) > len("{") {
		head = append(head, ',')
	}
	head = append(head, opens...)
	head = hex.AppendEncode(head, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return append(head, closes...)
}

// Check holds an object against its checksum. It fails with ErrChanged. One without a
// checksum, as older programs wrote them, is not sealed, and no error.
func Check(object []byte) (is bool, err error) {
	b := bytes.TrimRight(object, " \n")
	at := len(b) - length
	if at < len("{") || !bytes.HasPrefix(b[at:], []byte(opens)) || !bytes.HasSuffix(b, []byte(closes)) {
		return false, nil
	}
	var told [crc32.Size]byte
	if _, err := hex.Decode(told[:], b[at+len(opens):len(b)-len(closes)]); err != nil {
		return true, ErrChanged
	}
	head := b[:at]
	if len(head) > len("{") {
		if head[at-1] != ',' {
			return true, ErrChanged
		}
		head = head[:at-1]
	}
	if crc32.Checksum(head, castagnoli) != uint32(told[0])<<24|uint32(told[1])<<16|uint32(told[2])<<8|uint32(told[3]) {
		return true, ErrChanged
	}
	return true, nil
}
