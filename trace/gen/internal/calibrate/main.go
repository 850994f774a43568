// Command calibrate turns the published job logs into the compact tables of
// package gen. Run it from the root of the repository:
//
//	go run ./trace/gen/internal/calibrate -data ../shared/data -out trace/gen
//
// It writes one Go file for each log, tables_<log>.go, and one for the run
// times that users ask for. Equal logs give byte-identical files. Every figure
// in the files is either counted in a log or a constant in this program, with
// its source or the word "assumed" next to it.
package main

import (
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
)

func main() {
	data := flag.String("data", "../shared/data", "folder of the published logs")
	out := flag.String("out", "trace/gen", "folder for the tables")
	flag.Parse()
	if err := run(*data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "calibrate:", err)
		os.Exit(1)
	}
}

func run(data, out string) error {
	files, err := tables(data)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(out, f.name), f.text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// file is a Go file to write.
type file struct {
	name string
	text []byte
}

// tables are all files, in a fixed order.
func tables(data string) ([]file, error) {
	sources := []struct {
		name  string
		write func(*source, string) error
	}{
		{"philly", phillyTables}, {"venus", venusTables}, {"itp", itpTables}, {"pai", paiTables},
		{"pollux", polluxTables}, {"estimate", estimateTables},
	}
	var files []file
	for _, s := range sources {
		var w source
		if err := s.write(&w, data); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		text, err := format.Source(w.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		files = append(files, file{"tables_" + s.name + ".go", text})
	}
	return files, nil
}
