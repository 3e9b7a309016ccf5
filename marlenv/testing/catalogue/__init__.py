"""Examples of everything public: what property tests run over. A public class in no list fails a test."""
