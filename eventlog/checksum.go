package eventlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash/crc32"
)

// checksum is the running CRC-32C of a log. Each line ends with that of all lines
// so far, so that a line that was changed, lost, or put elsewhere is found out.
type checksum struct {
	none bool // the log has no checksums: its version is 1
	crc  uint32
}

// A line without its checksum ends with "}"; sealed it ends with opens, eight
// hexadecimal digits, and closes.
const (
	sumOpens  = `,"crc":"`
	sumCloses = `"}`
	sumLen    = len(sumOpens) + 2*crc32.Size + len(sumCloses)
)

// ErrChecksum is the error of a line whose checksum is wrong: the line, or one
// before it, is not as it was written.
var ErrChecksum = errors.New("the checksum is wrong: this line was changed, or one before it is missing")

// errNoChecksum is the error of a line that has none.
var errNoChecksum = errors.New("the line has no checksum at its end")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal adds the checksum to a line, which ends with a brace and the end of the
// line.
func (s *checksum) seal(line []byte) []byte {
	line = line[:len(line)-len("}\n")]
	s.crc = crc32.Update(s.crc, castagnoli, line)
	line = append(line, sumOpens...)
	line = hex.AppendEncode(line, []byte{byte(s.crc >> 24), byte(s.crc >> 16), byte(s.crc >> 8), byte(s.crc)})
	return append(line, sumCloses+"\n"...)
}

// isSealed tells whether a line ends as one with a checksum does.
func isSealed(line []byte) bool {
	at := len(line) - sumLen
	return at >= 0 && bytes.HasPrefix(line[at:], []byte(sumOpens)) && bytes.HasSuffix(line, []byte(sumCloses))
}

// check checks a sealed line, without the end of the line.
func (s *checksum) check(line []byte) error {
	if s.none {
		return nil
	}
	if !isSealed(line) {
		return errNoChecksum
	}
	at := len(line) - sumLen
	var told [crc32.Size]byte
	if _, err := hex.Decode(told[:], line[at+len(sumOpens):len(line)-len(sumCloses)]); err != nil {
		return errNoChecksum
	}
	s.crc = crc32.Update(s.crc, castagnoli, line[:at])
	if s.crc != uint32(told[0])<<24|uint32(told[1])<<16|uint32(told[2])<<8|uint32(told[3]) {
		return ErrChecksum
	}
	return nil
}
