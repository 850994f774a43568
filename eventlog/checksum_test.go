package eventlog

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// A header whose version was changed is damaged; one that a newer program has written, with
// a checksum that is right, asks for a newer norn.
func TestChangedVersionIsNoNewerOne(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, &Header{World: "local", Policy: "fifo"}, Plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]error{"3": ErrChecksum, "1": ErrChecksum, "9": ErrChecksum} {
		text := strings.Replace(b.String(), `"version":2`, `"version":`+version, 1)
		if _, err := NewReader(strings.NewReader(text), "x"); !errors.Is(err, want) || errors.Is(err, ErrNewer) {
			t.Errorf("version %s: %v", version, err)
		}
	}
	newer := []byte(`{"norn":"eventlog","version":3,"world":"mars"}` + "\n")
	var s checksum
	if _, err := NewReader(bytes.NewReader(s.seal(newer)), "x"); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer log: %v", err)
	}
}
