package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
)

// script is a program that tells in its first lines how it wants to be run.
type script struct {
	path    string
	command []string
	options *optionSet // of its lines that begin with #NORN
	foreign string     // what begins lines that another scheduler reads, such as #SBATCH
}

const (
	directive    = "#NORN"
	maxDirective = 64 << 10 // bytes of a line
)

// readScript reads the options in the first lines of a script: those before the
// first line that is neither empty nor a comment.
func (s *shell) readScript(path string, args []string) (*script, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	flags := pflag.NewFlagSet(path, pflag.ContinueOnError)
	out := &script{path: path, options: s.newOptions(flags)}
	in := bufio.NewReaderSize(file, maxDirective)
	if begin, err := in.Peek(2); err != nil || string(begin) != "#!" {
		out.command, err = program(path, args)
		return out, err
	}
	for n := 1; ; n++ {
		raw, err := in.ReadSlice('\n')
		line := strings.TrimSpace(string(raw))
		if err != nil && line == "" || line != "" && line[0] != '#' {
			return out, nil
		}
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case n == 1:
			out.command = interpreted(path, line, args)
		case word == "#SBATCH", word == "#PBS", word == "#BSUB":
			out.foreign = word
		case word == directive:
			if err := parseDirective(flags, rest); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, n, err)
			}
		}
		if err != nil {
			return out, nil
		}
	}
}

// interpreted is the command that starts a script by what its first line names,
// so that it need not be executable.
func interpreted(path, first string, args []string) []string {
	words := strings.Fields(strings.TrimPrefix(first, "#!"))
	if len(words) == 0 {
		words = []string{"/bin/sh"}
	}
	if len(words) > 2 { // as the kernel does it: all behind the program is one argument
		words = []string{words[0], strings.Join(words[1:], " ")}
	}
	return append(append(words, path), args...)
}

// program is the command that starts a file that is no script.
func program(path string, args []string) ([]string, error) {
	if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
		return append([]string{path}, args...), nil
	}
	return nil, misused("%s does not name its interpreter: begin it with a line such as #!/bin/bash, or write norn submit -- python %s", path, path)
}

// interpreters are programs that say little about a job: its name is that of
// what they run.
var interpreters = regexp.MustCompile(`^(python[0-9.]*|(ba|da|z|k)?sh|env|torchrun|accelerate|deepspeed|mpirun|julia|Rscript|perl|node)$`)

// scriptOf is the name of the script that a command runs, or empty.
func scriptOf(command []string, dir string) string {
	if len(command) == 0 || !interpreters.MatchString(filepath.Base(command[0])) {
		return ""
	}
	for _, arg := range command[1:] {
		path := arg
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if isFile(path) {
			return filepath.Base(path)
		}
	}
	return ""
}

func parseDirective(flags *pflag.FlagSet, text string) error {
	words, err := shellWords(text)
	if err != nil {
		return err
	}
	if err := flags.Parse(words); err != nil {
		var known []string
		flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		return fmt.Errorf("%w%s", err, nearFlag(known, err))
	}
	if rest := flags.Args(); len(rest) > 0 {
		return fmt.Errorf("%q is not an option; write options as on the command line of norn submit", rest[0])
	}
	return nil
}

// shellWords divides a line as a shell does, with quotes and a comment at its
// end, but without variables.
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '#' && !begun:
			return words, nil
		case r == ' ' || r == '\t':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// shellWord writes a word as a shell reads it: in quotes where it has anything but letters,
// digits and signs that mean nothing to a shell.
func shellWord(word string) string {
	plain := word != "" && strings.IndexFunc(word, func(r rune) bool {
		return !strings.ContainsRune("+-./,:=@%_", r) && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) < 0
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
