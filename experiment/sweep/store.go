package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/internal/sealed"
)

// Store is a folder in which runs are kept, and what is made of them. A run is a file whose
// name is the hash of all that the run was made from. So a sweep that is begun again, or one
// that asks for more, makes only the runs that are missing. Files are written whole or not at all;
// one that is damaged counts as missing. Without OpenStore, a folder can be looked at alone, also
// while a sweep goes on in it, and need not be there.
type Store struct {
	Path string
	lock *os.File
}

// Names in the folder.
const (
	runsName    = "runs"
	lockName    = ".lock" // locked as long as a sweep goes on
	CSVName     = "results.csv"
	ParquetName = "results.parquet"
	SummaryName = "summary.json"
)

// keyVersion changes when figures of the same name come to mean something else without a change of
// what identities tell.
const keyVersion = 1

// OpenStore opens the folder, which it makes where there is none. It fails where another
// sweep goes on in it.
func OpenStore(path string) (*Store, error) {
	if err := os.MkdirAll(filepath.Join(path, runsName), 0o777); err != nil {
		return nil, err
	}
	lock, err := fileio.Lock(filepath.Join(path, lockName))
	if errors.Is(err, fileio.ErrLocked) {
		return nil, fmt.Errorf("another sweep goes on in %s: wait for it, or name another folder", path)
	}
	if err != nil {
		return nil, err
	}
	return &Store{path, lock}, nil
}

// Close lets others use the folder.
func (s *Store) Close() error { return s.lock.Close() }

// kept is a run as it is kept. Made and Policy are for people who look at the file.
type kept struct {
	Made    json.RawMessage    `json:"made"`
	Policy  string             `json:"policy"`
	Figures map[string]float64 `json:"figures"`
	Remarks []string           `json:"remarks,omitempty"`
	Notes   []string           `json:"notes,omitempty"`
	Seconds float64            `json:"seconds"`
}

// keyOf is the hash of what a run is made from.
func keyOf(made json.RawMessage, policy string) (string, error) {
	text, err := json.Marshal(struct {
		Version int             `json:"version"`
		Made    json.RawMessage `json:"made"`
		Policy  string          `json:"policy"`
	}{keyVersion, made, policy})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

func (s *Store) file(key string) string { return filepath.Join(s.Path, runsName, key+".json") }

// find is a run that is kept; nil when it is not there, or damaged.
func (s *Store) find(key string) (*kept, error) {
	text, err := os.ReadFile(s.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	k := &kept{}
	if is, err := sealed.Check(text); !is || err != nil || json.Unmarshal(text, k) != nil {
		return nil, nil
	}
	if same, err := keyOf(k.Made, k.Policy); err != nil || same != key {
		return nil, nil
	}
	return k, nil
}

// keep keeps a run.
func (s *Store) keep(key string, k *kept) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return fileio.CreateWhole(s.file(key), func(w io.Writer) error {
		_, err := w.Write(append(sealed.Seal(text), '\n'))
		return err
	})
}

// Write writes what came of a sweep: each figure of each run as CSV and Parquet, and the
// comparison.
func (s *Store) Write(r *Results) error {
	for name, write := range map[string]func(io.Writer) error{CSVName: r.WriteCSV, ParquetName: r.WriteParquet, SummaryName: r.WriteJSON} {
		if err := fileio.CreateWhole(filepath.Join(s.Path, name), write); err != nil {
			return err
		}
	}
	return nil
}
